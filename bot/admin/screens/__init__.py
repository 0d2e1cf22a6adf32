"""The screens: every module here has one as SCREEN."""

import importlib
import pkgutil

from bot.admin.page_request import Screen


def load_screens() -> tuple[Screen, ...]:
    """All screens, in the order of the navigation."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    screens: list[Screen] = [importlib.import_module(f"{__name__}.{name}").SCREEN for name in names]
    return tuple(sorted(screens, key=lambda screen: screen.place))
