"""`trellis check` of a platform team's directory: 1,000 documents in 50 files, all of them valid."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench.measurement import Row, time_command, within

SECONDS = 1.5
FILES = 50
PER_FILE = 20

_VPA = """\
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {{name: web-{i}, namespace: team-{team}}}
spec:
  targetRef: {{apiVersion: apps/v1, kind: Deployment, name: web-{i}}}
  updatePolicy:
    updateMode: InPlaceOrRecreate
    actuationRequirements:
    - resources: [cpu, memory]
      changeRequirement: TargetHigherThanRequests
  startupBoost:
    cpu: {{type: Factor, factor: 2, duration: 30s}}
  resourcePolicy:
    containerPolicies:
    - containerName: app
      minAllowed: {{cpu: 50m, memory: 64Mi}}
      maxAllowed: {{cpu: "4", memory: 8Gi}}
    - containerName: proxy
      mode: "Off"
"""

_HVPA = """\
apiVersion: autoscaling.x-k8s.io/v1alpha1
kind: Hvpa
metadata: {{name: api-{i}, namespace: team-{team}}}
spec:
  targetRef: {{apiVersion: apps/v1, kind: Deployment, name: api-{i}}}
  hpa:
    deploy: true
    template:
      spec:
        minReplicas: 1
        maxReplicas: 16
        metrics:
        - type: Resource
          resource: {{name: cpu, target: {{type: Utilization, averageUtilization: 70}}}}
  vpa:
    deploy: true
    template: {{spec: {{}}}}
  buckets:
  - replicas: {{min: 1, max: 8}}
    cpu: {{min: "0", max: "24"}}
    memory: {{min: 500M, max: 25G}}
"""

_BUFFER = """\
apiVersion: autoscaling.x-k8s.io/v1alpha1
kind: Buffer
metadata: {{name: headroom-{i}, namespace: team-{team}}}
spec:
  targetRef: {{apiVersion: apps/v1, kind: Deployment, name: web-{i}}}
  capacity:
    replicas:
      percent: {{percent: 10, minCount: 1, maxCount: 20}}
"""

_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{i}
  namespace: team-{team}
  labels: {{app.kubernetes.io/name: web-{i}}}
spec:
  replicas: 3
  selector:
    matchLabels: {{app.kubernetes.io/name: web-{i}}}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: web-{i}}}
    spec:
      containers:
      - name: app
        image: registry.example.com/web:1.{i}.0
        ports:
        - {{name: http, containerPort: 8080}}
        resources:
          requests: {{cpu: 250m, memory: 256Mi}}
          limits: {{memory: 512Mi}}
        readinessProbe:
          httpGet: {{path: /ready, port: http}}
"""

_KINDS = (_VPA, _HVPA, _BUFFER, _DEPLOYMENT)


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        _write_documents(Path(directory))
        command = (sys.executable, "-m", "trellis", "check", directory)
        best = min(time_command(*command) for _ in range(3))
    return [within(f"trellis check of {FILES * PER_FILE:,} documents", best, SECONDS)]


def _write_documents(directory: Path) -> None:
    for file in range(FILES):
        first = file * PER_FILE
        documents = (_KINDS[i % len(_KINDS)].format(i=i, team=i % 20) for i in range(first, first + PER_FILE))
        (directory / f"team-{file:02}.yaml").write_text("---\n".join(documents), encoding="utf-8")
