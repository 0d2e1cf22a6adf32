"""Canvasgram: a Telegram agent gateway for DiffusionGemma served by vLLM; the map is in README.md beside this
file.
"""
