"""What the metrics' judge asks of the dashboard and the rules.

  metrics_names.py SCRAPE FILE...      every name masu_... in the files is a metric of the scrape
  metrics_names.py --queries DASHBOARD the dashboard's queries as a file of rules, for promtool
"""
import json
import re
import sys

if sys.argv[1] == "--queries":
    queries = []
    for panel in json.load(open(sys.argv[2]))["panels"]:
        queries += [target["expr"] for target in panel.get("targets", [])]
    assert len(queries) > 20, "the dashboard has no queries"
    print("groups:\n  - name: dashboard\n    rules:")
    for number, query in enumerate(queries):
        query = query.replace("$__rate_interval", "5m").replace("$instance", ".*")
        print(f"      - record: dashboard:query:{number}\n        expr: {json.dumps(query)}")
    sys.exit(0)

names = set()
for line in open(sys.argv[1]):
    if line.startswith("# TYPE "):
        _, _, name, kind = line.split()
        names.add(name)
        if kind == "histogram":
            names |= {name + end for end in ("_bucket", "_sum", "_count")}
missing = []
for path in sys.argv[2:]:
    found = set(re.findall(r"\bmasu_[a-z0-9_]+", open(path).read()))
    assert found, f"{path} names no metric"
    missing += [f"{path}: {name}" for name in sorted(found - names)]
print("\n".join(missing))
sys.exit(bool(missing))
