"""Alert rules and dashboards of an installation, as data: for the chart, and for the files in `deploy/monitoring`.

for name, group in alert_rules().items():       # groups of a PrometheusRule or of a rule file
    ...
for name, dashboard in dashboards().items():    # JSON for Grafana
    ...
"""

from trellis.install.monitoring.dashboards.grafana import dashboards
from trellis.install.monitoring.rules import alert_rules

__all__ = ["alert_rules", "dashboards"]
