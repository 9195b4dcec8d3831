import http.server
import shutil
import threading

import pytest


@pytest.fixture(autouse=True)
def page(request, monkeypatch):
    """A page in place of the real one, whose figures take a second; `drawn_page` asks for the real
    one."""
    if "drawn_page" not in request.fixturenames:
        monkeypatch.setattr("reports.page.page", lambda runs, options: options.title)


@pytest.fixture
def drawn_page():
    """Let the test log pages as users get them."""


@pytest.fixture
def uri(empty_store, tmp_path):
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture
def bad_server(request):
    """A server that answers everything with the status given; 0 never answers."""
    asked = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if request.param == 0:
                asked.wait(30)
                return
            self.send_response(request.param)
            self.end_headers()
            self.wfile.write(b"<html>broken</html>")

        do_POST = do_GET

        def log_message(self, *_):
            """Keep the test's output clean."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    asked.set()
    server.shutdown()
    server.server_close()
