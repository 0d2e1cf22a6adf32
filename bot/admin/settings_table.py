"""The settings in force, with every secret hidden. Pure."""

from pydantic import SecretStr

from bot.admin.components import cut
from bot.admin.data_table import Cell, DataTable, TableColumn
from bot.settings import Settings

HIDDEN = "hidden"
UNSET = "unset"


def build_settings_table(settings: Settings) -> DataTable:
    """Each setting with its value, and whether it was set or has its default."""
    columns = (
        TableColumn("name", "Setting"),
        TableColumn("value", "Value"),
        TableColumn("from", "From"),
    )
    rows = []
    for name, value in settings:
        text = _hide_secrets(_format_value(value), settings)
        source = "set" if name in settings.model_fields_set else "default"
        rows.append((Cell(name.upper()), Cell(text, cut(text)), Cell(source)))
    return DataTable("settings", "Settings in force", columns, tuple(rows))


def _format_value(value: object) -> str:
    if isinstance(value, SecretStr):
        return HIDDEN
    if isinstance(value, tuple | frozenset):
        return ", ".join(sorted(map(_format_value, value))) or UNSET
    return UNSET if value is None else str(value)


def _hide_secrets(text: str, settings: Settings) -> str:
    """The text without a secret that somebody has written into another setting."""
    for secret in settings.list_secrets():
        text = text.replace(secret, HIDDEN)
    return text
