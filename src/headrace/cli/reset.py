"""`headrace reset`: takes an application back to the beginning."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from headrace.cli.applications import files_of, internal_topics
from headrace.cli.cluster import reachable
from headrace.cli.terminal import Terminal
from headrace.config import StreamsConfig
from headrace.kafka.clients import ClientSettings
from headrace.kafka.topics import Topics
from headrace.presence import at_rest, state_directory
from headrace.serving.membership import instances_group, leadership_group


def reset(config: StreamsConfig, confirm: Callable[[str], bool], terminal: Terminal) -> bool:
    """Removes all that the application remembers, after asking; whether it was done."""
    application_id = config.application_id
    assert application_id is not None
    state_dir = state_directory(config)
    with (
        at_rest(state_dir, application_id),
        reachable(config, terminal) as connected,
    ):
        topics = Topics(ClientSettings.of(connected))
        doomed = internal_topics(application_id, topics.describe())
        files = files_of(state_dir, application_id)
        terminal.say(f"To be removed of the application {application_id}:")
        terminal.say(f"  the consumer group {application_id}: source topics are read from the beginning again")
        for name in doomed:
            terminal.say(f"  the topic {name}")
        for path in files:
            terminal.say(f"  {path}")
        if not confirm(f"Take {application_id} back to the beginning?"):
            terminal.say("Nothing was touched.")
            return False
        # 1. The groups first: Kafka refuses while instances are in them, and nothing else is gone by then.
        for group in (instances_group(application_id), leadership_group(application_id), application_id):
            topics.delete_group(group)
        # 2. What it kept in Kafka.
        with terminal.busy("Removing topics"):
            topics.delete(doomed)
        # 3. What it kept here.
        for path in files:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    terminal.say(f"{application_id} is at the beginning. What it wrote to its output topics stays.")
    return True
