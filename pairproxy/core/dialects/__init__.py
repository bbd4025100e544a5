"""Wire formats: what a request asks (reading), how its reply is followed (meter), how errors are written.

routes.py    the one table: what each path is, in whose words, and which engines know it
reading.py   body -> Request, with its parts beside it (reading_*, coding, keeping)
meter.py     reply bytes -> usage and outcome, without delaying one (meter_fields: names and units)
failures.py  an error of ours -> status and body in the caller's dialect
rename.py    another model's name in a body, for engines that a person mapped
translate.py ollama <-> openai, for the embedded engine's face only; forwarding never translates
"""
