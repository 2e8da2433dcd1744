"""A stand-in for a schema registry: the part of its published REST interface that clients need to
register schemas and to find them again. A client that we did not write registers with it, too."""

import base64
import http.server
import json
import ssl
import threading
import urllib.parse


class Registry:
    """On a port of its own, which it keeps while it is away (stop, start) and with it its schemas."""

    def __init__(self, user=None, certificate=None, port=0):
        """user: USER:PASSWORD, without which nobody gets an answer. certificate: with its key, a PEM file;
        it then talks TLS. port 0: a free one."""
        self.certificate = certificate
        self.login = user and "Basic " + base64.b64encode(user.encode()).decode()
        self.schemas = {}  # by their ids
        self.asked = []  # what was, and the status of the answer
        self._subjects = {}  # their ids, by version from 1
        self._lock = threading.Lock()
        self._server, self._port = None, port

    @property
    def url(self):
        return f"http{'s' if self.certificate else ''}://127.0.0.1:{self._port}"

    def start(self):
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                registry.answer(self, "GET")

            def do_POST(self):
                registry.answer(self, "POST")

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        if self.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self):
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def add(self, schema, **more):
        """Registers it under no subject; the id. more: schemaType, references."""
        with self._lock:
            return self._id_of({"schema": schema, **more})

    def _id_of(self, body):
        kept = {key: body[key] for key in ("schema", "schemaType", "references") if body.get(key)}
        for number, known in self.schemas.items():
            if known == kept:
                return number
        self.schemas[len(self.schemas) + 1] = kept
        return len(self.schemas)

    def answer(self, request, method):
        length = int(request.headers.get("Content-Length") or 0)
        body = json.loads(request.rfile.read(length)) if length else {}
        with self._lock:
            if self.login and request.headers.get("Authorization") != self.login:
                status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
            else:
                words = [urllib.parse.unquote(word)
                         for word in request.path.split("?")[0].strip("/").split("/")]
                status, answer = self._route(method, words, body)
            self.asked.append((f"{method} {request.path}", status))
        data = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def _route(self, method, words, body):
        if method == "GET" and words[:2] == ["schemas", "ids"] and len(words) == 3:
            if int(words[2]) >= 2**31:  # ids are signed, in 32 bits: there is no such page
                return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
            schema = self.schemas.get(int(words[2]))
            return (200, schema) if schema else (
                404, {"error_code": 40403, "message": f"Schema {words[2]} not found"})
        if method == "GET" and words[0] == "subjects" and words[2:3] == ["versions"] and len(words) == 4:
            versions, version = self._subjects.get(words[1]), int(words[3])
            if versions is None:
                return 404, {"error_code": 40401, "message": f"Subject '{words[1]}' not found."}
            if not 0 < version <= len(versions):
                return 404, {"error_code": 40402, "message": f"Version {version} not found."}
            number = versions[version - 1]
            return 200, {"subject": words[1], "id": number, "version": version, **self.schemas[number]}
        if method == "POST" and words[0] == "subjects" and words[2:] == ["versions"]:
            number = self._id_of(body)
            versions = self._subjects.setdefault(words[1], [])
            if number not in versions:
                versions.append(number)
            return 200, {"id": number, "version": versions.index(number) + 1, **self.schemas[number]}
        if method == "POST" and words[0] == "subjects" and len(words) == 2:
            number = self._id_of(body)
            versions = self._subjects.get(words[1], [])
            if number in versions:
                return 200, {"subject": words[1], "id": number, "version": versions.index(number) + 1,
                             **self.schemas[number]}  # fmt: skip
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
