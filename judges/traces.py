"""The collector of the traces' judge, with OpenTelemetry's own protobuf classes.

  traces.py serve DIR [PORT]   takes OTLP over HTTP on 127.0.0.1; the port is in DIR/port. The first request is
                               answered with 503: it comes again. What arrives is in DIR/received, a file a request
  traces.py count DIR NAME     how many traces of commands with this name have arrived
  traces.py check DIR          what arrived is as docs/operation.md says
"""
import http.server
import os
import pathlib
import sys

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

what, folder = sys.argv[1], pathlib.Path(sys.argv[2])
received = folder / "received"


class Collector(http.server.BaseHTTPRequestHandler):
    refused = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/v1/traces" or self.headers["Content-Type"] != "application/x-protobuf":
            return self.answer(404)
        if self.headers.get("Authorization") != "Bearer of-the-judge":
            return self.answer(401)
        # An answer that OTLP calls retryable.
        if not Collector.refused:
            Collector.refused = True
            return self.answer(503)
        request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
        assert request.resource_spans, "an empty request"
        path = received / f"{len(list(received.iterdir())):04}"
        path.with_suffix(".part").write_bytes(body)
        path.with_suffix(".part").rename(path)
        self.answer(200, trace_service_pb2.ExportTraceServiceResponse().SerializeToString())

    def answer(self, code, body=b""):
        self.send_response(code)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def traces():
    """All traces: resource attributes, and the spans of one command."""
    found = {}
    for path in sorted(received.iterdir()):
        if path.suffix:
            continue
        request = trace_service_pb2.ExportTraceServiceRequest.FromString(path.read_bytes())
        for of_resource in request.resource_spans:
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    found.setdefault(span.trace_id, (attributes(of_resource.resource), []))[1].append(span)
    return found


def attributes(of):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in of.attributes}


def root_of(spans):
    roots = [span for span in spans if not span.parent_span_id]
    assert len(roots) == 1, f"{len(roots)} roots"
    return roots[0]


def check():
    commands = {}
    for trace_id, (resource, spans) in traces().items():
        assert len(trace_id) == 16 and any(trace_id), trace_id
        assert resource["service.name"] == "masu" and resource["service.version"], resource
        by_id = {span.span_id: span for span in spans}
        assert len(by_id) == len(spans) and all(len(i) == 8 and any(i) for i in by_id), "identities of spans"
        root = root_of(spans)
        assert root.kind == trace_pb2.Span.SPAN_KIND_SERVER, root
        for span in spans:
            assert span.start_time_unix_nano <= span.end_time_unix_nano, span
            if span is not root:
                parent = by_id[span.parent_span_id]
                assert parent.start_time_unix_nano <= span.start_time_unix_nano, (parent, span)
                assert span.end_time_unix_nano <= parent.end_time_unix_nano, (parent, span)
        # Written a moment ago, by the clock of this machine.
        assert abs(os.stat(received).st_mtime - root.start_time_unix_nano / 1e9) < 600, root
        commands.setdefault(root.name, []).append((root, spans, by_id))

    def way(by_id, span):
        names = [span.name]
        while span.parent_span_id:
            span = by_id[span.parent_span_id]
            names.insert(0, span.name)
        return names

    for name, direction in (("READ", "read"), ("WRITE", "write")):
        found = [c for n, cs in commands.items() if n.startswith(name + "(") for c in cs]
        found = [c for c in found if attributes(c[0]).get("masu.bytes") == 65536]
        assert found, f"no {name} of 64 KiB among {sorted(commands)}"
        root, spans, by_id = found[-1]
        said = attributes(root)
        expected = {"disk.io.direction": direction, "masu.volume": "v0", "masu.host": "any", "masu.lun": 0}
        expected |= {"masu.scsi.status": "GOOD", "masu.controller": 0, "masu.lba": 2048}
        assert expected.items() <= said.items(), said
        assert "masu.initiator" in said and "masu.port" in said, said
        stages = {span.name for span in spans} - {root.name}
        assert {"port", "lu", "pool", "raid", "drive"} <= stages, stages
        drives = [span for span in spans if span.name == "drive"]
        ways = [way(by_id, span) for span in drives]
        assert [root.name, "lu", "pool", "raid", "drive"] in ways, ways
        assert {attributes(span)["system.device"] for span in drives} <= {"d0", "d1", "d2"}, drives
    failed = [c[0] for cs in commands.values() for c in cs if c[0].status.code == trace_pb2.Status.STATUS_CODE_ERROR]
    # A host hears a unit attention after its login: 6h/29h/00h.
    assert any(attributes(root)["error.type"].startswith("CHECK CONDITION 6h/29h") for root in failed), failed
    print(f"{sum(map(len, commands.values()))} traces: {', '.join(sorted(commands))}")


if what == "serve":
    received.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 else 0), Collector)
    (folder / "port.part").write_text(str(server.server_address[1]))
    (folder / "port.part").rename(folder / "port")
    server.serve_forever()
elif what == "count":
    name = sys.argv[3] + "("
    print(sum(root_of(spans).name.startswith(name) for _, spans in traces().values()))
else:
    check()
