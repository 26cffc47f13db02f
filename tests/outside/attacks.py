"""Attacks: texts that do harm if a program imports, unpickles or evaluates them.

Each names `otd_canary`, a module that writes a file when it is imported or its function is called.
"""

from __future__ import annotations

import base64

CANARY = "otd_canary"
PICKLE = f"c{CANARY}\nrun\n(tR."  # "call otd_canary.run", as the first protocol writes it

ATTACKS = {
    "a dotted path": f"{CANARY}.run",
    "an entry point": f"{CANARY}:run",
    "a URL": f"{CANARY}://run",
    "code": f"__import__('{CANARY}').run()",
    "a statement": f"import {CANARY}; {CANARY}.run()",
    "a pickle": PICKLE,
    "a pickle in base64": base64.b64encode(PICKLE.encode()).decode(),
    "a YAML tag": f"!!python/object/apply:{CANARY}.run []",
    "JSON that names a class": f'{{"py/object": "{CANARY}.run", "__reduce__": ["{CANARY}.run", []]}}',
    "a template": f"{{{{ {CANARY} }}}} {{0.__class__.__mro__}} ${{{CANARY}}} %(x)s",
    "a shell": "$(touch touched); `touch touched`; touch touched",
}
SOURCE = """
from pathlib import Path
def run(*_):
    Path({path!r}).touch()
run()
"""
