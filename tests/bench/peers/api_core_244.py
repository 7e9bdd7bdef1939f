"""Google's own polling loop: `Operation.result` of PyPI `google-api-core` 2.44.0 over REST, twenty threads.

Runs in an environment of its own: `python api_core_244.py URL SECONDS`. Its rest between two polls is set to nothing.
"""

import json
import sys
import threading
import time
import warnings

warnings.simplefilter("ignore")

from google.api_core import exceptions, operation, retry  # noqa: E402 - the client warns while it is imported
from google.api_core.operations_v1 import AbstractOperationsClient  # noqa: E402 - as above
from google.api_core.operations_v1.transports.rest import OperationsRestTransport  # noqa: E402 - as above
from google.auth.credentials import AnonymousCredentials  # noqa: E402 - as above
from google.longrunning import operations_pb2  # noqa: E402 - as above
from google.protobuf import struct_pb2  # noqa: E402 - as above

AT_ONCE = 20
WARM_S = 0.5
POLLS = [0] * AT_ONCE


def follow(client, number, seconds):
    name = f"projects/p/locations/l/operations/{number}"

    def refresh(**_options):
        POLLS[number] += 1
        return client.get_operation(name)

    found = operation.Operation(operations_pb2.Operation(name=name), refresh, None, struct_pb2.Struct)
    at_once = retry.Retry(
        predicate=retry.if_exception_type(operation.polling._OperationNotComplete),
        initial=1e-6, maximum=1e-6, multiplier=1.0, timeout=seconds,
    )  # fmt: skip
    try:
        found.result(polling=at_once)
    except (exceptions.RetryError, TimeoutError, exceptions.GoogleAPICallError):
        return
    except Exception as error:
        if "imeout" not in type(error).__name__:
            raise


def main(url, seconds):
    transport = OperationsRestTransport(host=url, credentials=AnonymousCredentials(), url_scheme="http")
    client = AbstractOperationsClient(transport=transport)
    for duration in (WARM_S, seconds):
        POLLS[:] = [0] * AT_ONCE
        cpu, began = time.process_time(), time.monotonic()
        threads = [threading.Thread(target=follow, args=(client, n, duration)) for n in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spent = {"own": time.process_time() - cpu, "postgres": 0.0, "looks": sum(POLLS)}
        spent["wall"] = time.monotonic() - began
    print(json.dumps(spent), flush=True)


main(sys.argv[1], float(sys.argv[2]))
