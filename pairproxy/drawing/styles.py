"""The style sheets: light and dark by what the reader's system says, no colour without a pattern.

Plain class rules and no CSS variables: viewers that know little of CSS understand them.
"""

from pairproxy.drawing.palette import DARK, LIGHT, Palette

FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def picture_css() -> str:
    """Of the SVG, alone or inside a page: classes beginning with ``pp``."""
    return (
        f".pp text{{font:12px {FONT}}}.pp .ppw{{font-size:10px}}.pp .ppt{{font-size:15px;font-weight:600}}"
        ".pp .ppe{text-anchor:end}.pp .ppm{text-anchor:middle}"
        f"{_picture(LIGHT)}@media (prefers-color-scheme:dark){{{_picture(DARK)}}}"
    )


def _picture(palette: Palette) -> str:
    return (
        f".pp text{{fill:{palette.ink}}}.pp .pps{{fill:{palette.muted}}}"
        f".pp .ppb{{fill:{palette.background}}}.pp .ppw{{fill:{palette.background}}}"
        f".pp .ppg{{stroke:{palette.grid};fill:none}}"
        f".pp .ppq{{fill:{palette.waiting}}}.pp .ppd{{fill:{palette.decode}}}"
        f".pp .ppp{{stroke:{palette.prefill}}}.pp .ppl{{stroke:{palette.load}}}"
        f".pp .ppf{{stroke:{palette.failed}}}"
        f".pp .ppp,.pp .ppl,.pp .ppf{{fill:none}}"
        ".pp>path.ppp,.pp g path.ppp{fill:url(#ppp)}.pp>path.ppl,.pp g path.ppl{fill:url(#ppl)}"
        ".pp>path.ppf,.pp g path.ppf{fill:url(#ppf)}"
        f".pp .ppo{{stroke:{palette.bound};stroke-width:2;stroke-dasharray:6 3;fill:none}}"
        f".pp text.ppn{{fill:{palette.bound}}}"
    )


def page_css() -> str:
    """Of the HTML file, without its picture."""
    return (
        f"body{{margin:0;font:16px/1.5 {FONT}}}main,footer{{max-width:980px;margin:0 auto;padding:0 16px}}"
        "h1{font-size:24px;margin:24px 0 0;overflow-wrap:anywhere}h2{font-size:18px;margin:32px 0 8px}"
        "dl,dd,p{margin:0}.verdict{border-left:4px solid;padding:4px 0 4px 16px;margin:16px 0}"
        ".verdict dt{font-size:13px}.verdict dd{margin-bottom:8px;font-size:17px;overflow-wrap:anywhere}"
        ".figures{display:flex;flex-wrap:wrap;gap:8px 32px;margin:16px 0}.figures dt{font-size:13px}"
        ".figures dd{font-size:20px;font-weight:600}.wide{overflow-x:auto}.wide svg{display:block}"
        "table{border-collapse:collapse;font-size:14px}th,td{padding:3px 12px 3px 0;text-align:left;"
        "vertical-align:top}th{font-weight:600}.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
        "ul{padding-left:20px;margin:0}li{overflow-wrap:anywhere}code{display:inline-block;max-width:100%}"
        "summary{cursor:pointer;margin:32px 0 8px;"
        "font-size:18px;font-weight:600}footer{padding-top:32px;padding-bottom:32px;font-size:13px}"
        f"{_page(LIGHT)}@media (prefers-color-scheme:dark){{{_page(DARK)}}}"
        "@media print{details>*{display:block}}"
    )


def _page(palette: Palette) -> str:
    return (
        f"body{{background:{palette.background};color:{palette.ink}}}"
        f".soft,dt,th,footer{{color:{palette.muted}}}.verdict{{border-color:{palette.bound}}}"
        f"tbody tr{{border-top:1px solid {palette.grid}}}"
        f":focus-visible{{outline:2px solid {palette.decode};outline-offset:2px}}"
    )
