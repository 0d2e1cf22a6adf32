# Two stages: the first has uv and the sources, the second only Python and the finished environment.

FROM python:3.13.14-slim AS build
RUN pip install --no-cache-dir "uv==0.13.9"
WORKDIR /app
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never
COPY pyproject.toml uv.lock ./
RUN uv sync --locked --no-dev --extra postgresql --no-install-project
COPY README.md LICENSE ./
COPY bot bot
COPY tools tools
COPY migrations migrations
RUN uv sync --locked --no-dev --extra postgresql --no-editable

FROM python:3.13.14-slim
RUN useradd --uid 10001 --no-create-home canvasgram && install -d -o canvasgram -m 0700 /data /backups
COPY --from=build /app/.venv /app/.venv
# For MCP servers that are started with uvx.
COPY --from=build /usr/local/bin/uv /usr/local/bin/uvx /usr/local/bin/
# HTTP_PORT stays on loopback inside the container: it is there for the health check alone.
# With an arena of memory a thread, freed memory is held in pieces: two hold five to eight MiB less. So it is when
# large buffers lie between small ones: mapped by themselves, they are given back.
ENV PATH=/app/.venv/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    DATABASE_URL=sqlite+aiosqlite:////data/canvasgram.db \
    BACKUP_DIR=/backups \
    MALLOC_ARENA_MAX=2 \
    MALLOC_MMAP_THRESHOLD_=65536 \
    HTTP_PORT=8080
USER 10001
WORKDIR /data
VOLUME ["/data", "/backups"]
STOPSIGNAL SIGTERM
# Bash alone: a Python would take more processor time than the gateway does while nobody writes.
HEALTHCHECK --interval=60s --timeout=5s --start-period=60s --start-interval=5s --retries=3 CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/$HTTP_PORT && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && read -r -t 4 _ status _ <&3 && [ \"$status\" = 200 ]"]
ENTRYPOINT ["canvasgram"]
CMD ["run"]
