"""The job queue.

worker claims inbox items in the order of their lanes and gives each group to the runner of its kind (turns
are run by chat and jobs); dead_letters sets aside what no runner can handle.
"""

from bot.queue.dead_letters import DeadLetters
from bot.queue.worker import BusyLanes, Worker, WorkerCallbacks

__all__ = ["BusyLanes", "DeadLetters", "Worker", "WorkerCallbacks"]
