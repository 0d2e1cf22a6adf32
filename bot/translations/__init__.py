"""The gateway's own words in several languages: gettext catalogues, and the translator that looks them up."""
