-- The public views: people write SQL against these, so their columns stay.

create view sources as
select generation, stream, path, state, size, "offset", size - least(size, "offset") as lag, records, rejects, last_at
from position_log
qualify row_number() over (partition by generation order by seq desc) = 1;

create view records as
select r.generation, r."offset", r.idx as "index", r.length, r.stream, r.time, r.time_quality, r.dialect, r.witness, r.kind,
       r.class as outcome, r.code, r.detail, r.tool, r.server, r.args, r.request_id, r.group_id, r.trace_id, r.principal,
       r.client, r.tenant, r.session, r.duration_ms, r.flags, r.extra
from record_log r;

create view rejects as
select j.generation, s.stream, s.path, j."offset", j.length, j.reason, j.head
from reject_log j left join sources s using (generation);

-- Call rows that stand: those no later batch made void.
create view call_now as
select c.* from call_log c
where not exists (from call_superseded s where s.call_id = c.call_id and s.before_seq > c.seq);

create view calls as
select lower(hex(call_id)) as call_id, time, ended, tool, server, principal, client, actor, tenant, session, class as outcome,
       code, decision, ran, duration_ms, ask_to_answer_ms, args, flags, request_id, group_id, trace_id, witnesses,
       discrepancies, stream, generation, "offset", length
from call_now;

-- A session is a run of calls of one session key with gaps of at most 30 minutes.
create view sessions as
with marked as (
    select *, coalesce(time - lag(time) over by_key > interval 30 minutes, true)::int as starts
    from call_now where time is not null
    window by_key as (partition by session order by time, stream, generation, "offset")
), numbered as (
    select *, sum(starts) over (partition by session order by time, stream, generation, "offset"
                                rows unbounded preceding) as run
    from marked
)
select left(sha256(session || ':' || lower(hex(arg_min(call_id, (time, stream, generation, "offset"))))), 32) as session_id,
       session, min(actor) as actor, min(time) as first_at, max(coalesce(ended, time)) as last_at, count(*) as calls
from numbered group by session, run;

create view alert_now as
select * from alert_log qualify row_number() over (partition by alert_id order by seq desc) = 1;

create view alerts as
select lower(hex(a.alert_id)) as alert_id, a.rule, a.title, a.level, coalesce(d.state, 'open') as status, d.close_reason,
       a.group_by as "group", a.actor, a.first_seen, a.last_seen, a.count, a.retracted, a.tags
from alert_now a left join (
    select alert_id, arg_max(state, seq) as state, arg_max(close_reason, seq) as close_reason
    from decision_log group by alert_id
) d using (alert_id)
where a.alert_id not in (select old_id from alert_alias);
