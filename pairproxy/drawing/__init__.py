"""A run as a picture: its Report (api.schema) drawn for a terminal, as SVG, and as one HTML file.

::

    palette    the colours, and what each means: the same in every picture and on the page
"""
