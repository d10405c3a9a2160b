"""The annotations by which a test controls a pod's kubelet.

Each is an annotation of the pod, so it can stand in a pod template or be set later. kwok plays by them;
see `stages` and `usage`.
"""

from __future__ import annotations

# Seconds from the pod's start until it is Ready. Without it a pod is Ready as soon as it runs.
READY_AFTER = "testbed/ready-after-seconds"

# "Succeeded" or "Failed": all containers end so, once the pod is Ready. Without it they run for ever.
FINISH = "testbed/finish"
# Seconds from the pod's start until it does.
FINISH_AFTER = "testbed/finish-after-seconds"

# What becomes of resizes. Without it they are actuated at once.
RESIZE = "testbed/resize"
DEFERRED = "Deferred"  # PodResizePending, reason Deferred: does not fit now
INFEASIBLE = "Infeasible"  # PodResizePending, reason Infeasible: will never fit this node
IN_PROGRESS = "InProgress"  # allocated, but the containers keep what they have: PodResizeInProgress
HELD = "Held"  # the kubelet has not looked at it yet

# "container=n,...": the container has restarted n times, the last time because it was killed for its memory.
# A total and not "once more": played twice by mistake, it changes nothing the second time.
OOM_KILLED = "testbed/oom-killed"
# The same for a container that ended with an error.
RESTARTED = "testbed/restarted"

# "container,...": these are down, killed for their memory and waiting in their back-off, for as long as it says so. A
# container that it no longer names is restarted.
CRASHED = "testbed/crashed"

# The condition whose message has the limits that are in the cgroup of the pod, by container, as JSON. A resize reaches
# it only while all containers run, as on kubelet 1.36 (kubernetes#138760); what the status says else is not the truth.
CGROUP = "testbed/PodCgroup"

# What each container uses, as quantities; with ".<container>" appended, what that one uses.
USAGE_CPU = "testbed/usage-cpu"
USAGE_MEMORY = "testbed/usage-memory"
# By which share of it usage goes up and down at random, at each scrape: "0.3" is 70 % to 130 %. Without it usage stands
# still.
USAGE_SPREAD = "testbed/usage-spread"
