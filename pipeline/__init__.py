"""The pipeline turns a raw exchange event into a durable line. It does not know that ASGI exists.

Private to users of the distribution: everything public is in `capture`.
"""
