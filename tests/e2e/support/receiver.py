"""Receivers: HTTP servers on loopback, such as webhook receivers."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Responds to POST and PUT with the status and body that `answer` returns for the method, the path, the headers and the body."""

    def __init__(self, answer=lambda *_: (204, "")):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                content = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, body = answer(self.command, self.path, self.headers, content)
                self.send_response(status)
                # S3 identifies each uploaded part by its ETag.
                self.send_header("etag", '"1"')
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_PUT = do_POST

            def log_message(self, *_):
                """Writes nothing to stderr."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
