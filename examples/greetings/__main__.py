"""Shows what each topology makes of a few greetings: python -m examples.greetings SUBJECT"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable

from headrace import Serdes, StreamsConfig
from headrace.errors import StreamsError
from headrace.task.handlers import MESSAGE_HEADER
from headrace.testing import TopologyTestDriver

from . import errors, json_pipeline
from .pipeline import GREETINGS, SPANISH, UPPERCASE, VARIANTS, build

GOOD = b'{"message": "Good Morning", "timeStamp": "2022-12-04T05:26:31.060293"}'
RAW = Serdes.bytes()


def show_text() -> None:
    """What each topology on text makes of three greetings."""
    for name, draw in VARIANTS.items():
        print(f"{name}:")
        with TopologyTestDriver(build(draw)) as driver:
            driver.input_topic(GREETINGS).pipe("anna", "Hello!")
            driver.input_topic(GREETINGS).pipe("ben", "Hi")
            driver.input_topic(SPANISH).pipe("carmen", "¡Hola!")
            results = driver.output_topic(UPPERCASE).read_key_values()
        print(f"  {', '.join(f'{key}={value}' for key, value in results)}")


def show_errors() -> None:
    """The records that go wrong, with handlers that go on and with handlers that stop."""
    print("going on:")
    with TopologyTestDriver(json_pipeline.topology(), errors.tolerant) as driver:
        pipe(driver, (GOOD, errors.BROKEN, errors.TRANSIENT, errors.HALF_AN_EMOJI, GOOD))
        for value in driver.output_topic(UPPERCASE, RAW, RAW).read_values():
            print(f"  {value.decode()}")
        for letter in driver.output_topic(errors.DEAD_LETTERS, RAW, RAW).read_all():
            print(f"  dead letter {letter.value.decode()}")
            print(f"    {(dict(letter.headers)[MESSAGE_HEADER] or b'').decode()}")
    print("stopping:")
    for record in (errors.BROKEN, errors.TRANSIENT, errors.HALF_AN_EMOJI):
        print(f"  {stopped_by(record, errors.strict)}")


def stopped_by(record: bytes, config: StreamsConfig) -> str:
    """How the application ends at the record, and what the handler of last resort says."""
    try:
        with TopologyTestDriver(json_pipeline.topology(), config) as driver:
            pipe(driver, [record])
    except StreamsError as error:
        return f"{type(error).__name__}, and the last resort is {errors.last_resort(error).value}"
    raise AssertionError("the record went through")


def pipe(driver: TopologyTestDriver, records: Iterable[bytes]) -> None:
    """Pipes greetings as bytes."""
    topic = driver.input_topic(GREETINGS, RAW, RAW)
    for record in records:
        topic.pipe(b"anna", record)


SUBJECTS: dict[str, Callable[[], None]] = {"text": show_text, "errors": show_errors}

if __name__ == "__main__":
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if wanted not in SUBJECTS:
        sys.exit(f"python -m examples.greetings SUBJECT, one of {', '.join(SUBJECTS)}")
    SUBJECTS[wanted]()
