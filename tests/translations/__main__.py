"""Writes the catalogues and the page of all texts from the code: `python -m tests.translations`.

Edit the .po files, then run it again: it compiles them, and prints what is missing.
"""

from bot.translations.translator import LANGUAGES
from tests.translations import catalogues


def main() -> None:
    """Update and compile the catalogue of each language, and write the page."""
    template = catalogues.extract_texts()
    catalogues.PAGE.write_text(catalogues.format_page(template), encoding="utf-8")
    for language in LANGUAGES:
        catalogue = catalogues.update_catalogue(language, template)
        catalogues.find_file(language).parent.mkdir(parents=True, exist_ok=True)
        catalogues.find_file(language).write_bytes(catalogues.format_po(catalogue))
        catalogues.find_file(language, ".mo").write_bytes(catalogues.format_mo(catalogue))
        missing = [
            message
            for message in catalogues.iterate_messages(catalogue)
            if not all(catalogues.get_translations(message))
        ]
        print(f"{language}: {len(catalogue)} texts, {len(missing)} not translated")


if __name__ == "__main__":
    main()
