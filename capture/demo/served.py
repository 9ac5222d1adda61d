"""The scripted model server as a plain `module:attribute`, with its numbers from the environment.

For whatever imports an application rather than calling a factory: `CAPTURE_APP=capture.demo.served:app`.
"""

from capture.demo.server import scripted_app

app = scripted_app()
