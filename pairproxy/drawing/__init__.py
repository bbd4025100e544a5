"""A run as a picture: its Report (api.schema) drawn for a terminal, as SVG, and as one HTML file.

::

    palette    the colours, and what each means: the same in every picture and on the page
    rows       which bars share a line, under which name; too many lines come together, counted
    scale      seconds along a line, and counts over time
    terminal   lines of text, with or without colour, with or without UTF-8
    svg        a picture;  html  a page around it;  styles  light and dark of both
"""
