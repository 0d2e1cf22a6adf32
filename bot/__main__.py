"""Entry point of `python -m bot` and of the `canvasgram` command."""

from bot.cli.main import main

if __name__ == "__main__":
    main()
