"""The bytes that Kafka Streams keeps in state stores, changelogs and internal topics.

Each module has pure functions over bytes: `pack_...` writes a form, `unpack_...` reads it.
"""
