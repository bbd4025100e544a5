"""The page at the admin port: files of this package (page/), served as they are.

::

    page/index.html > main.js > views (overview, runs, models, request, pairing) > parts (timeline, tables)
                            > live.js (GET /events), store.js (the other JSON) > dom.js, words.js

The page reads the JSON of api.schema and reckons nothing that stands in it.
"""
