import sys
from pathlib import Path

for part in ("cli", "crash"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / part))
