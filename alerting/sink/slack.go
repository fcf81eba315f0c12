package sink

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/value"
)

// maxSlackText is how many characters of title and text are sent; Slack cuts longer messages.
const maxSlackText = 3000

// slackMessage is n as a message in Slack's markup. Mattermost and others show it, too.
func slackMessage(n alerting.Notice) ([]byte, error) {
	var title, text string
	var context []string
	if a := n.Alert; a != nil {
		title, text = slackAlert(a)
		context = append(context, "severity "+a.Labels["severity"])
		if id := a.Annotations["decision"]; id != "" {
			context = append(context, "`forewarm explain "+id+"`")
		}
		if url := a.Annotations["runbook_url"]; url != "" {
			context = append(context, "<"+url+"|runbook>")
		}
		if url := a.Annotations["dashboard_url"]; url != "" {
			context = append(context, "<"+url+"|dashboard>")
		}
	} else if r := n.Report; r != nil {
		title, text = "📊 Report, "+r.When, strings.Join(r.Summary, " ")
	} else {
		title, text = slackDecision(n.Decision)
		context = append(context, "`forewarm explain "+n.Decision.EventID()+"`")
	}
	body := value.Cut("*"+slackEscape(title)+"*\n"+slackEscape(text), maxSlackText) + "\n" + strings.Join(context, " · ")
	return json.Marshal(map[string]string{"text": body})
}

func slackAlert(a *alerting.Alert) (title, text string) {
	title, text = a.Annotations["summary"], a.Annotations["description"]
	switch {
	case a.Resolved:
		title = "✅ Resolved: " + title
		return title, fmt.Sprintf("The alert fired for %.0f min.", math.Ceil(a.UpdatedAt.Sub(a.StartsAt).Minutes()))
	case a.Labels["severity"] == string(alerting.Page):
		title = "🚨 " + title
	default:
		title = "⚠️ " + title
	}
	if a.Annotations["mode"] == string(alerting.Advisory) {
		title += " (advisory)"
	}
	return title, text + "\n*What to do:* " + a.Annotations["action"]
}

func slackDecision(d *alerting.Decision) (title, text string) {
	sign, verb := "⬆️", "asked for"
	if d.Action == alerting.ScaleIn {
		sign = "⬇️"
	}
	switch {
	case d.Mode == alerting.Advisory:
		verb = "advised (advisory)"
	case d.Withheld != "":
		verb = "wanted, but not asked for yet"
	}
	return fmt.Sprintf("%s %s: %d→%d replicas %s", sign, d.Pool, d.Ready+d.Pending, d.Desired, verb), d.Reason
}

// slackEscape escapes the three characters that Slack reads as control
// (https://api.slack.com/reference/surfaces/formatting).
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
