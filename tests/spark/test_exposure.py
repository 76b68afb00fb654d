"""What a started application shows to others."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

from confluent_kafka import Producer

from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from tests.spark.exposure import command_lines, listening, readable_by_others, with_descendants

SECRETS = ("kafka-password-4711", "s3-key-4711", "trust-store-4711")
SPARK = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.hadoop.fs.s3a.secret.key": SECRETS[1],
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -Djavax.net.ssl.trustStorePassword={SECRETS[2]}",
}
KAFKA = {"ssl.key.password": SECRETS[0]}


def test_nobody_else_sees_or_reaches_anything(embedded_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    settings = ClientSettings(embedded_kafka.bootstrap_servers)
    application_id = f"exposed-{uuid.uuid4().hex[:8]}"
    Topics(settings).create([TopicSpec(f"{application_id}.{name}", 1) for name in ("in", "out")])
    state = tmp_path / "state"
    told = {
        "servers": settings.bootstrap_servers,
        "state_dir": str(state),
        "application_id": application_id,
        "spark": SPARK,
        "kafka": KAFKA,
    }
    given = tmp_path / "settings.json"
    given.write_text(json.dumps(told))
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark.counting_application", f"@{given}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            producer = Producer(settings.producer())
            producer.produce(f"{application_id}.in", "v", "k")
            producer.flush()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            everybody = with_descendants(process.pid)
            commands = command_lines(everybody)
            assert "SparkSubmit" in commands
            addresses = listening(everybody)
            readable = [*readable_by_others(state), *readable_by_others(embedded_kafka.state_dir)]
        finally:
            process.kill()
    assert addresses == {"127.0.0.1"}
    assert not [secret for secret in SECRETS if secret in commands]
    assert list(state.iterdir()) and not readable
