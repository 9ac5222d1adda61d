"""A scripted model server, and the demonstration that drives it with capture on.

`create_app(ScriptedModel(...))` is the server: three dialects, streamed and not, with every fault a client must
survive, chosen by the model's name (`scripts.SCRIPTS`). `python -m capture.demo` runs the demonstration.
"""

from capture.demo.scripts import SCRIPTS, ScriptedModel
from capture.demo.server import create_app, scripted_app

__all__ = ["SCRIPTS", "ScriptedModel", "create_app", "scripted_app"]
