"""Judges an AIP-151 server with Google's own client: PyPI `google-api-core` 2.44.0 over REST.

Runs in an environment of its own: `python api_core_244.py http://127.0.0.1:PORT`. The server must have, each under
`/<case>/v1`, the method `projects/p/locations/l/jobs:run`. One line of standard output: what the client made of each
case, as JSON.
"""

import json
import sys
import time
import uuid
import warnings

warnings.simplefilter("ignore")

import requests  # noqa: E402 - the client warns while it is imported
from google.api_core import exceptions, operation  # noqa: E402
from google.api_core.operations_v1 import AbstractOperationsClient  # noqa: E402
from google.api_core.operations_v1.transports.rest import OperationsRestTransport  # noqa: E402
from google.auth.credentials import AnonymousCredentials  # noqa: E402
from google.longrunning import operations_pb2  # noqa: E402
from google.protobuf import json_format, struct_pb2  # noqa: E402

SERVER = sys.argv[1]
PLACE = "projects/p/locations/l"
PATIENCE = 60  # seconds for an operation


class Case:
    """One server's client, and the method it calls."""

    def __init__(self, name):
        self.prefix = f"{name}/v1"
        transport = OperationsRestTransport(host=SERVER, path_prefix=self.prefix, credentials=AnonymousCredentials())
        self.client = AbstractOperationsClient(transport=transport)

    def run(self, method="jobs", **query):
        """Call the method; give back the future of its operation."""
        answer = requests.post(f"{SERVER}/{self.prefix}/{PLACE}/{method}:run", json={}, params=query, timeout=PATIENCE)
        started = json_format.ParseDict(answer.json(), operations_pb2.Operation())
        return operation.from_gapic(started, self.client, struct_pb2.Struct, metadata_type=struct_pb2.Struct)


def a_result(case):
    future = case.run()
    before = future.done()
    result = future.result(timeout=PATIENCE)
    return {
        "before": before,
        "result": dict(result),
        "api": future.metadata["apiVersion"],
        "cancelled": future.cancelled(),
    }


def a_failure(case):
    try:
        return case.run("sorry").result(timeout=PATIENCE)
    except exceptions.GoogleAPICallError as error:
        return {"error": type(error).__name__, "message": error.message}


def a_cancel(case):
    future = case.run()
    accepted, at_once = future.cancel(), future.cancelled()
    return {"accepted": accepted, "at_once": at_once, "ended": the_end(future), "cancelled": future.cancelled()}


def the_end(future):
    try:
        return dict(future.result(timeout=PATIENCE))
    except exceptions.Cancelled as error:
        return f"Cancelled {error.code}"


def a_cancel_after_the_end(case):
    future = case.run()
    future.result(timeout=PATIENCE)
    case.client.cancel_operation(future.operation.name)
    time.sleep(0.5)
    result = struct_pb2.Struct()
    case.client.get_operation(future.operation.name).response.Unpack(result)
    return dict(result)


def a_refused_cancel(case):
    try:
        return case.run().cancel()
    except exceptions.MethodNotImplemented as error:
        return {"error": type(error).__name__, "code": error.code, "domain": error.domain}


def an_unknown_name(case):
    try:
        return case.client.get_operation(f"{PLACE}/operations/nope")
    except exceptions.NotFound as error:
        return {"error": type(error).__name__, "reason": error.reason, "domain": error.domain}


def a_delete(case):
    future = case.run()
    case.client.delete_operation(future.operation.name)
    try:
        return str(case.client.get_operation(future.operation.name))
    except exceptions.NotFound as error:
        return {"error": type(error).__name__}


def a_list(case):
    made = [case.run().operation.name for _ in range(5)]
    pages = list(case.client.list_operations(PLACE, filter_="", page_size=2).pages)
    listed = [found.name for page in pages for found in page.operations]
    return {"pages": [len(page.operations) for page in pages], "same": listed == made}


def the_same_request_twice(case):
    key = str(uuid.uuid4())
    return {"same": case.run(requestId=key).operation.name == case.run(requestId=key).operation.name}


def a_busy_server(case):
    name = case.run().operation.name
    began = time.monotonic()
    return {"name": case.client.get_operation(name).name == name, "in_time": time.monotonic() - began < PATIENCE}


def main():
    verdicts = {
        "result": a_result(Case("good")),
        "failure": a_failure(Case("good")),
        "cancel": a_cancel(Case("slow")),
        "lost cancel": a_cancel(Case("ignores")),
        "late cancel": a_cancel_after_the_end(Case("good")),
        "refused cancel": a_refused_cancel(Case("refuses")),
        "unknown": an_unknown_name(Case("good")),
        "deleted": a_delete(Case("slow")),
        "list": a_list(Case("many")),
        "replay": the_same_request_twice(Case("slow")),
        "busy": a_busy_server(Case("busy")),
        "gateway": a_result(Case("gateway")),
    }
    print(json.dumps(verdicts))


if __name__ == "__main__":
    main()
