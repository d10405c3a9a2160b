"""The patches that kwok, as the kubelet, applies to the status of a node or pod.

Go templates over the object, with the functions of sprig and kwok's own (`Now`, `Quote`, `NodeIP` ...); the
result is YAML, applied as a strategic merge patch. `%(...)s` stands for the name of an annotation.
"""

from __future__ import annotations

# What the templates share. The API server replaces lists of container statuses as a whole, so each of them is
# written again. "container" changes the status of a container that lives as long as the pod; the others stay.
REWRITE = """
containerStatuses:
{{ range $index, $status := .status.containerStatuses }}
{{ template "container" (dict "pod" $ "status" $status "container" (index $.spec.containers $index)) }}
- {{ toJson $status }}
{{ end }}
{{ if .spec.initContainers }}
initContainerStatuses:
{{ range $index, $status := .status.initContainerStatuses }}
{{ $container := index $.spec.initContainers $index }}
{{ if $container.restartPolicy }}
{{ template "container" (dict "pod" $ "status" $status "container" $container) }}
{{ end }}
- {{ toJson $status }}
{{ end }}
{{ end }}
observedGeneration: {{ .metadata.generation }}
"""

# The limits that the cgroup of a pod has, as a condition.
_CGROUP = """
{{ $limits := dict }}
{{ range .spec.containers }}
{{ $_ := set $limits .name (default dict (default dict .resources).limits) }}
{{ end }}
- {type: %(cgroup)s, status: "True", message: {{ $limits | toJson | Quote }}, lastTransitionTime: {{ Now | Quote }}}
"""

RUN = (
    """
{{ $ready := not (hasKey (default dict .metadata.annotations) "%(ready_after)s") }}
{{ define "container" }}
{{ $resources := default dict .container.resources }}
- name: {{ .container.name | Quote }}
  image: {{ .container.image | Quote }}
  imageID: {{ .container.image | Quote }}
  ready: {{ .ready }}
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ Now | Quote }}}}
  resources: {{ $resources | toJson }}
  allocatedResources: {{ default dict $resources.requests | toJson }}
{{ end }}
phase: Running
startTime: {{ Now | Quote }}
observedGeneration: {{ .metadata.generation }}
containerStatuses:
{{ range .spec.containers }}{{ template "container" (dict "container" . "ready" $ready) }}{{ end }}
{{ with .spec.initContainers }}
initContainerStatuses:
{{ range . }}
{{ if .restartPolicy }}{{ template "container" (dict "container" . "ready" true) }}
{{ else }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ .image | Quote }}
  ready: true
  started: false
  restartCount: 0
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ Now | Quote }}, finishedAt: {{ Now | Quote }}}}
{{ end }}
{{ end }}
{{ end }}
conditions:
{{ range list "PodReadyToStartContainers" "Initialized" }}
- {type: {{ . }}, status: "True", lastTransitionTime: {{ Now | Quote }}}
{{ end }}
{{ range list "ContainersReady" "Ready" }}
- type: {{ . }}
  status: {{ $ready | ternary "True" "False" | Quote }}
  lastTransitionTime: {{ Now | Quote }}
  {{ if not $ready }}reason: ContainersNotReady{{ end }}
{{ end }}
"""
    + _CGROUP
    + """
{{ with .spec.resources }}
resources: {{ toJson . }}
allocatedResources: {{ default dict .requests | toJson }}
{{ end }}
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
hostIPs: [{$patch: replace}{{ range . }}, {ip: {{ . | Quote }}}{{ end }}]
{{ end }}
{{ with PodIPsWith .spec.nodeName (default false .spec.hostNetwork) .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ index . 0 | Quote }}
podIPs: [{$patch: replace}{{ range . }}, {ip: {{ . | Quote }}}{{ end }}]
{{ end }}
"""
)

GET_READY = """
{{ define "container" }}{{ $_ := set .status "ready" true }}{{ end }}
conditions:
- {type: ContainersReady, status: "True", reason: null, lastTransitionTime: {{ Now | Quote }}}
- {type: Ready, status: "True", reason: null, lastTransitionTime: {{ Now | Quote }}}
"""

END = """
{{ define "container" }}
{{ $failed := eq (index .pod.metadata.annotations "%(finish)s") "Failed" }}
{{ $end := dict "startedAt" .pod.status.startTime "finishedAt" Now }}
{{ $_ := set $end "exitCode" ($failed | ternary 1 0) }}
{{ $_ := set $end "reason" ($failed | ternary "Error" "Completed") }}
{{ $_ := set .status "state" (dict "terminated" $end) }}
{{ $_ := set .status "ready" false }}
{{ $_ := set .status "started" false }}
{{ end }}
phase: {{ index .metadata.annotations "%(finish)s" }}
conditions:
{{ range list "ContainersReady" "Ready" }}
- {type: {{ . }}, status: "False", reason: PodCompleted, lastTransitionTime: {{ Now | Quote }}}
{{ end }}
"""

ACTUATE = """
{{ define "container" }}
{{ $resources := default dict .container.resources }}
{{ $_ := set .status "resources" $resources }}
{{ $_ := set .status "allocatedResources" (default dict $resources.requests) }}
{{ end }}
{{ with .spec.resources }}
resources: {{ toJson . }}
allocatedResources: {{ default dict .requests | toJson }}
{{ end }}
conditions:
- {type: PodResizePending, $patch: delete}
- {type: PodResizeInProgress, $patch: delete}
"""

# What happens where no container is down.
ACTUATE_IN_CGROUP = ACTUATE + _CGROUP

CRASH = """
{{ define "container" }}
{{ $status := .status }}
{{ range splitList "," (index .pod.metadata.annotations "%(crashed)s") }}
{{ if and (eq . $status.name) (hasKey $status.state "running") }}
{{ $end := dict "exitCode" 137 "reason" "OOMKilled" "finishedAt" Now }}
{{ $_ := set $end "startedAt" $status.state.running.startedAt }}
{{ $_ := set $status "state" (dict "terminated" $end) }}
{{ $_ := set $status "ready" false }}
{{ $_ := set $status "started" false }}
{{ end }}
{{ end }}
{{ end }}
conditions:
{{ range list "ContainersReady" "Ready" }}
- {type: {{ . }}, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ Now | Quote }}}
{{ end }}
"""

COME_BACK = """
{{ define "container" }}
{{ $status := .status }}
{{ $named := splitList "," (default "" (index (default dict .pod.metadata.annotations) "%(crashed)s")) }}
{{ if and (hasKey $status.state "terminated") (not (has $status.name $named)) }}
{{ $_ := set $status "restartCount" (add1 ($status.restartCount | toString | atoi)) }}
{{ $_ := set $status "lastState" (dict "terminated" $status.state.terminated) }}
{{ $_ := set $status "state" (dict "running" (dict "startedAt" Now)) }}
{{ $_ := set $status "started" true }}
{{ end }}
{{ end }}
"""

ALLOCATE = """
{{ define "container" }}
{{ $resources := default dict .container.resources }}
{{ $_ := set .status "allocatedResources" (default dict $resources.requests) }}
{{ end }}
{{ with .spec.resources }}
allocatedResources: {{ default dict .requests | toJson }}
{{ end }}
conditions:
- {type: PodResizePending, $patch: delete}
- type: PodResizeInProgress
  status: "True"
  lastTransitionTime: {{ Now | Quote }}
  observedGeneration: {{ .metadata.generation }}
"""

POSTPONE = """
conditions:
- {type: PodResizeInProgress, $patch: delete}
- type: PodResizePending
  status: "True"
  reason: {{ index .metadata.annotations "%(resize)s" }}
  message: The annotation %(resize)s of this pod asks for it.
  lastTransitionTime: {{ Now | Quote }}
  observedGeneration: {{ .metadata.generation }}
observedGeneration: {{ .metadata.generation }}
"""

RESTART = """
{{ define "container" }}
{{ $status := .status }}
{{ range splitList "," (index .pod.metadata.annotations "%(annotation)s") }}
{{ $pair := splitList "=" . }}
{{ $count := index $pair 1 | atoi }}
{{ if and (eq (index $pair 0) $status.name) (lt ($status.restartCount | toString | atoi) $count) }}
{{ $end := dict "exitCode" %(code)d "reason" "%(reason)s" "finishedAt" Now }}
{{ $_ := set $end "startedAt" $status.state.running.startedAt }}
{{ $_ := set $status "lastState" (dict "terminated" $end) }}
{{ $_ := set $status "state" (dict "running" (dict "startedAt" Now)) }}
{{ $_ := set $status "restartCount" $count }}
{{ end }}
{{ end }}
{{ end }}
"""

# Heartbeats are the node's lease, which kwok renews; the status is written once.
NODE_UP = """
addresses:
- {type: InternalIP, address: {{ NodeIP | Quote }}}
- {type: Hostname, address: {{ .metadata.name | Quote }}}
daemonEndpoints: {kubeletEndpoint: {Port: {{ NodePort }}}}
conditions:
{{ range NodeConditions }}
- type: {{ .type }}
  status: {{ .status | Quote }}
  reason: {{ .reason }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ Now | Quote }}
{{ end }}
"""
