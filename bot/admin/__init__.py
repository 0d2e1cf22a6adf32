"""The web page of admins: served by the gateway, or read-only by `canvasgram admin`.

It is imported only where it is served. `app` answers requests: it checks the address, the session and the
CSRF token, then calls a view of a screen; whatever the view raises becomes an error page.

To add a screen, add one module to `screens`, which are found there; no list has to be changed:

    SCREEN = Screen(name="tools", title="Tools", place=6, views={"": show_list, "/{tool}": show_tool}, acts=…)

- A view takes a PageRequest and returns a ScreenPage, a Fragment (what htmx puts into a page) or a Download.
  It loads in `async with request.read() as tx`, once, with functions of bot/db and bot/usage that the reports
  use; then pure functions (figures in, elements out) build the body from `components` and `data_table`.
- `filters` parses periods and filters and refuses what is none, `filter_form` shows them; `keyset_pages` is
  for long lists; a DataTable is shown by `show_table`, and exported as it stands if `request.export` is set.
- An act takes a PageRequest and the form, changes something in `request.write()` with `request.actor`, by
  the function that chat and command line use, and returns a Redirect. `components.act_form` is its button.
  What cannot be taken back is asked about by a view of the same path. What changes the gateway's memory, too,
  comes from `request.gateway`, as `AccessChanges` do: this package may not import the chat's commands.
- Texts of people are passed as children of elements, which escapes them; `cut` bounds them. No style
  attributes and no inline scripts: the browser refuses both. Files in `static` are served by themselves.
- Each screen has a test over HTTP that compares its figures with the report's: `tests/support/admin_page.py`
  serves it. `tests/browser/test_admin_page.py` finds and opens every screen in Chromium; its acts are added.
"""
