"""Canvasgram: a Telegram agent gateway for DiffusionGemma served by vLLM. The map is in bot/README.md."""
