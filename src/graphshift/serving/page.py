"""The service's page: its OpenAPI description as plain HTML. Nothing is loaded from elsewhere."""

import html
import json
from typing import Any

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
    "pre{background:#8882;padding:.8rem;overflow-x:auto}code{font-size:.95em}"
    ":root{color-scheme:light dark}summary{cursor:pointer}"
)


def page(openapi: dict[str, Any], example: dict[str, Any]) -> str:
    """One section for each path, with its schema; and a request to copy."""
    info = openapi["info"]
    shown = json.dumps(example, indent=2, ensure_ascii=False)
    parts = [f"<h1>{html.escape(info['title'])}</h1><p>{html.escape(info.get('description', ''))}</p>"]
    parts.append('<p>As a description for programs: <a href="openapi.json">openapi.json</a>.</p>')
    quoted = shown.replace("'", "'\\''")
    parts.append(
        "<h2>Example</h2><pre>curl -s http://HOST:PORT/predict -H 'content-type: application/json' -d "
        f"'{html.escape(quoted)}'</pre>"
    )
    for path, methods in openapi["paths"].items():
        for method, about in methods.items():
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>")
            parts.append(f"<p>{html.escape(about.get('description') or about.get('summary', ''))}</p>")
            schema = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if schema:
                text = html.escape(json.dumps(schema, indent=2, ensure_ascii=False))
                parts.append(f"<details><summary>what it takes (JSON Schema)</summary><pre>{text}</pre></details>")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
    return (
        f"<!doctype html><html lang=en><head>{head}<title>graphshift</title></head><body>{''.join(parts)}</body></html>"
    )
