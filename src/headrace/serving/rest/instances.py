"""The endpoints about instances: who is there, how they do, and what they are asked by their peers."""

from __future__ import annotations

import asyncio

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from headrace.serving.off_loop import MANY_ROWS, off_loop
from headrace.serving.peers import APPLICATION_HEADER
from headrace.serving.queries import Query, check_query
from headrace.serving.rest.problems import Problem
from headrace.serving.rest.schemas import answers
from headrace.serving.rest.stores import answer, service_of
from headrace.serving.routing import PeerError
from headrace.serving.service import Service
from headrace.serving.status import InstanceStatus, status_of

public = APIRouter(tags=["instances"])


async def _need_own_application(request: Request) -> None:
    """Refuses the peers of another application, which may have had this address before."""
    if request.headers.get(APPLICATION_HEADER) != service_of(request).application_id:
        raise Problem(421, "Another application", "This instance belongs to another application.")


internal = APIRouter(prefix="/internal/v1", include_in_schema=False, dependencies=[Depends(_need_own_application)])

_STATUS_SECONDS = 1.0
_QUERY_SECONDS = 30.0
_decode_query = msgspec.json.Decoder(Query).decode


@public.get("/healthz", summary="Whether the instance is alive", responses=answers("Status"))
async def healthz(request: Request) -> Response:
    failure = service_of(request).instance.failure
    if failure is not None:
        raise Problem(503, "Failed", "The instance has failed; its log says why.")
    return answer({"status": "ok"})


@public.get("/readyz", summary="Whether the instance has restored its partitions", responses=answers("Status"))
async def readyz(request: Request) -> Response:
    instance = service_of(request).instance
    status = status_of(instance)
    if not instance.is_ready:
        raise Problem(
            503,
            "Not ready",
            f"The instance is {status.state}.",
            headers={"Retry-After": "1"},
            restoring=msgspec.to_builtins(status.restoring),
        )
    return answer({"status": "ready"})


@public.get(
    "/v1/instances",
    summary="Every instance: its partitions by store, its state, its lag, who leads",
    responses=answers("Instances"),
)
async def instances(request: Request) -> Response:
    service = service_of(request)
    view = service.instance.view
    addresses = [member.address for member in view.members] or [service.instance.address or ""]
    statuses = await asyncio.gather(*(_ask(service, address) for address in addresses))
    owners = {member.address: member.partitions for member in view.members}
    standing_by = service.instance.standing_by(view)
    names = {store.topic: name for name, store in service.instance.stores.items()}
    found = []
    for address, status in zip(addresses, statuses, strict=True):
        partitions: dict[str, list[int]] = {}
        for topic, partition in sorted(owners.get(address, ())):
            if topic in names:
                partitions.setdefault(names[topic], []).append(partition)
        found.append(
            {
                "address": address,
                "leader": address == view.leader,
                "partitions": partitions,
                "state": "UNREACHABLE" if status is None else status.state,
                "lag": None if status is None else status.lag,
                "standby": standing_by.get(address, {}),
                "restoring": [] if status is None else msgspec.to_builtins(status.restoring),
                "trouble": None if status is None else status.trouble,
            }
        )
    return answer({"application": service.application_id, "leader": view.leader, "instances": found})


@public.get("/v1/config", summary="The configuration, without secrets", responses=answers("Settings"))
async def config(request: Request) -> Response:
    return answer(service_of(request).settings)


@internal.post("/query")
async def query(request: Request) -> Response:
    """Answers from this instance's own copies. It never asks on."""
    service = service_of(request)
    try:
        asked = _decode_query(await request.body())
    except msgspec.MsgspecError as error:
        raise Problem(400, "Bad Request", f"This is not a query: {error}") from None
    check_query(asked, service.reader.store(asked.store))
    found = await service.router.ask_locally(asked, min(max(0, asked.wait_ms) / 1000, _QUERY_SECONDS))
    content = await off_loop(len(found.rows) > MANY_ROWS, lambda: msgspec.json.encode(found))
    return Response(content, media_type="application/json")


@internal.get("/status")
async def status(request: Request) -> Response:
    """How this instance does."""
    return Response(msgspec.json.encode(status_of(service_of(request).instance)), media_type="application/json")


@internal.post("/shutdown")
async def shutdown(request: Request) -> Response:
    """Ends this instance, as another one's pipeline failed and its handler wants all to end."""
    service_of(request).on_shutdown()
    return answer({})


async def _ask(service: Service, address: str) -> InstanceStatus | None:
    if address == (service.instance.address or ""):
        return status_of(service.instance)
    try:
        return await service.peers.status(address, _STATUS_SECONDS)
    except PeerError:
        return None
