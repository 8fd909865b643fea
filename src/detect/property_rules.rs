//! The rules that the properties are tried on: every type, with spans of seconds.

pub(super) const FILES: [(&str, &str); 30] = [
    (
        "sequence.yml",
        "
title: t
correlation: {type: temporal_ordered, rules: [a, b, c], group-by: [session], timespan: 10s}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: c, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
",
    ),
    (
        "count.yml",
        "
title: t
correlation:
  type: event_count
  rules: [b]
  group-by: [principal, tool.name]
  timespan: 10s
  condition: {gte: 3}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
",
    ),
    (
        "denials.yml",
        "
title: t
correlation: {type: temporal_ordered, rules: [many, ok], group-by: [principal], timespan: 6s}
---
title: t
name: many
correlation:
  {type: event_count, rules: [denied], group-by: [principal], timespan: 8s, condition: {gte: 2}}
---
{title: t, name: denied, logsource: {product: mcp}, detection: {s: {outcome: denied}, condition: s}}
---
{title: t, name: ok, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
",
    ),
    (
        "leak.yml",
        "
title: t
correlation: {type: temporal_ordered, rules: [many, c], group-by: [session], timespan: 6s}
---
title: t
name: many
correlation:
  {type: event_count, rules: [b], group-by: [session], timespan: 8s, condition: {gte: 2}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: c, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
",
    ),
    (
        "pairs.yml",
        "
title: t
correlation: {type: first_seen, rules: [in], fields: [session, tenant], baseline: 0}
---
{title: t, name: in, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
",
    ),
    (
        "days.yml",
        "
title: t
correlation:
  {type: event_count, rules: [any], group-by: [client], timespan: 10h, condition: {gte: 2}}
---
{title: t, name: any, logsource: {product: mcp}, detection: {s: {kind: call}, condition: s}}
",
    ),
    (
        "tenants.yml",
        "
title: t
correlation: {type: first_seen, rules: [in], fields: [principal, tenant], baseline: 1}
---
{title: t, name: in, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
",
    ),
    (
        "tools.yml",
        "
title: t
correlation: {type: first_seen, rules: [in], fields: [tool.name], baseline: 2}
---
{title: t, name: in, logsource: {product: mcp}, detection: {s: {kind: call}, condition: s}}
",
    ),
    (
        "single.yml",
        "
{title: t, logsource: {product: mcp}, detection: {s: {outcome: error}, condition: s}}
",
    ),
    (
        "middle.yml",
        "
title: t
correlation:
  {type: temporal_ordered, rules: [a, few, wide], group-by: [principal], timespan: 12s}
---
title: t
name: few
correlation:
  type: event_count
  rules: [b]
  group-by: [principal]
  timespan: 5s
  condition: {gte: 2, lte: 3}
---
title: t
name: wide
correlation:
  type: value_count
  rules: [ok]
  group-by: [principal]
  timespan: 7s
  condition: {field: tenant, gt: 1}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: ok, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
",
    ),
    (
        "range.yml",
        "
title: t
correlation:
  type: event_count
  rules: [b]
  group-by: [session]
  timespan: 10s
  condition: {gte: 3, lt: 6, neq: 4}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
",
    ),
    (
        "values.yml",
        "
title: t
correlation:
  type: value_count
  rules: [ok]
  group-by: [session]
  timespan: 10s
  condition: {field: tenant, gte: 2}
---
{title: t, name: ok, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
",
    ),
    (
        "paths.yml",
        "
title: t
correlation:
  type: value_count
  rules: [ok]
  group-by: [session]
  timespan: 5s
  condition: {field: args.path, gte: 3}
---
{title: t, name: ok, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
",
    ),
    (
        "ratio.yml",
        "
title: t
correlation:
  type: ratio
  of: denied
  per: any
  group-by: [principal]
  timespan: 10s
  condition: {gte: 0.5}
  minimum: 3
---
{title: t, name: denied, logsource: {product: mcp}, detection: {s: {outcome: denied}, condition: s}}
---
{title: t, name: any, logsource: {product: mcp},
 detection: {s: {tool.name: fetch}, condition: not s}}
",
    ),
    (
        "temporal.yml",
        "
title: t
correlation: {type: temporal, rules: [a, b, many], group-by: [session], timespan: 9s}
---
title: t
name: many
correlation:
  {type: event_count, rules: [denied], group-by: [session], timespan: 4s, condition: {gte: 2}}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: denied, logsource: {product: mcp}, detection: {s: {outcome: denied}, condition: s}}
",
    ),
    (
        "alias.yml",
        "
title: t
correlation:
  type: temporal_ordered
  rules: [a, c]
  group-by: [who]
  aliases: {who: {a: session, c: client}}
  timespan: 10s
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: c, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
",
    ),
    (
        "taint.yml",
        "
title: t
correlation: {type: taint, source: a, touches: b, sink: c, group-by: [actor]}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: c, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
",
    ),
    (
        "at-once.yml",
        "
title: t
correlation:
  type: temporal_ordered
  rules: [a, b, many, c]
  group-by: [session]
  timespan: 10s
  allow-same-event: true
---
title: t
name: many
correlation:
  {type: event_count, rules: [ok], group-by: [session], timespan: 5s, condition: {gte: 2}}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: ok, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
---
{title: t, name: c, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
",
    ),
    (
        "together.yml",
        "
title: t
correlation:
  {type: temporal, rules: [a, b], group-by: [actor], timespan: 9s, allow-same-event: true}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
",
    ),
    (
        "tainted-at-once.yml",
        "
title: t
correlation: {type: taint, source: a, sink: c, group-by: [session], allow-same-event: true}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: c, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
",
    ),
    (
        "either.yml",
        "
title: t
correlation:
  {type: event_count, rules: [a, b], group-by: [session], timespan: 10s, condition: {gte: 3}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
",
    ),
    (
        "everything.yml",
        "
title: t
correlation: {type: temporal_ordered, rules: [many, c, ok], timespan: 10s}
---
title: t
name: many
correlation: {type: event_count, rules: [b, denied], timespan: 8s, condition: {gte: 2, lt: 5}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: denied, logsource: {product: mcp}, detection: {s: {outcome: denied}, condition: s}}
---
{title: t, name: c, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
---
{title: t, name: ok, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
",
    ),
    (
        "everybody.yml",
        "
title: t
correlation:
  type: value_count
  rules: [ok, denied]
  group-by: []
  timespan: 10s
  condition: {field: tenant, gte: 3}
---
{title: t, name: ok, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
---
{title: t, name: denied, logsource: {product: mcp}, detection: {s: {outcome: denied}, condition: s}}
",
    ),
    (
        "anybody.yml",
        "
title: t
correlation: {type: temporal, rules: [a, b], timespan: 4s}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
",
    ),
    (
        "pair-then.yml",
        "
title: t
correlation:
  {type: temporal_ordered, rules: [pair, denied], group-by: [session], timespan: 10s}
---
title: t
name: pair
correlation:
  {type: temporal_ordered, rules: [a, b], group-by: [session], timespan: 6s}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: denied, logsource: {product: mcp}, detection: {s: {outcome: denied}, condition: s}}
",
    ),
    (
        "twice.yml",
        "
title: t
correlation:
  {type: event_count, rules: [both, denied], group-by: [principal], timespan: 12s,
   condition: {gte: 2}}
---
title: t
name: both
correlation:
  {type: temporal, rules: [a, b], group-by: [principal], timespan: 4s}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: denied, logsource: {product: mcp}, detection: {s: {outcome: denied}, condition: s}}
",
    ),
    (
        "wide.yml",
        "
title: t
correlation:
  {type: temporal_ordered, rules: [tenants, c], timespan: 6s}
---
title: t
name: tenants
correlation:
  {type: value_count, rules: [pair], timespan: 8s, condition: {field: tenant, gte: 2}}
---
title: t
name: pair
correlation:
  {type: temporal_ordered, rules: [a, b], timespan: 5s}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: c, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
",
    ),
    (
        "bursts.yml",
        "
title: t
correlation:
  {type: event_count, rules: [burst], group-by: [session], timespan: 10s, condition: {gte: 2}}
---
title: t
name: burst
correlation:
  {type: event_count, rules: [b], group-by: [session], timespan: 4s,
   condition: {gte: 2, neq: 3}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
",
    ),
    (
        "deep.yml",
        "
title: t
correlation:
  {type: temporal_ordered, rules: [c, middle], group-by: [actor], timespan: 8s}
---
title: t
name: middle
correlation:
  {type: temporal, rules: [pair, ok], group-by: [actor], timespan: 5s}
---
title: t
name: pair
correlation:
  {type: temporal_ordered, rules: [a, b], group-by: [actor], timespan: 3s}
---
{title: t, name: c, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: ok, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
",
    ),
    (
        "learned.yml",
        "
title: t
correlation: {type: first_seen, rules: [in], fields: [principal, tool.name], baseline: 2, learning: 20s}
---
{title: t, name: in, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
",
    ),
];
