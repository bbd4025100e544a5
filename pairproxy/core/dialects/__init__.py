"""Wire formats: what a request asks (reading), how its reply is followed (meter), how errors are written.

routes.py    which paths are inference, and whose words they use
reading.py   body -> what choosing a node needs of it
meter.py     reply bytes -> usage and outcome, without delaying one
failures.py  an error of ours -> status and body in the caller's dialect
translate.py ollama <-> openai, for the embedded engine's face only; forwarding never translates
"""
