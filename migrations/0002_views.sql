-- The public views: people write SQL against these, so their columns stay.

create view sources as
select generation, stream, path, state, size, "offset", size - least(size, "offset") as lag, records, rejects, last_at
from position_log
qualify row_number() over (partition by generation order by seq desc) = 1;

-- Arguments are stored with how much of them the log showed and with hashes; people ask for names and values.
create macro shown_args(args) as
    ('{' || array_to_string(list_transform(
        from_json(args, '{"values": [{"name": "VARCHAR", "text": "VARCHAR"}]}').values,
        lambda v: to_json(v.name) || ':' ||
                  case when json_valid(v.text) then v.text else to_json(v.text)::varchar end
    ), ',') || '}')::json;

create view records as
select r.generation, r."offset", r.idx as "index", r.length, r.stream, r.time, r.time_quality, r.dialect, r.witness, r.kind,
       r.class as outcome, r.code, r.detail, r.tool, r.server, shown_args(r.args) as args, r.request_id, r.group_id, r.trace_id, r.principal,
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
       code, decision, ran, duration_ms, ask_to_answer_ms, shown_args(args) as args, flags, request_id, group_id, trace_id, witnesses,
       discrepancies, stream, generation, "offset", length
from call_now where kind = 'call';

-- What reading the logs showed about the logs themselves: what happened, and its figures (bytes, seconds, more).
create view ingest_events as
select lower(hex(call_id)) as event_id, time, code as event, stream, generation, "offset", shown_args(args) as figures
from call_now where kind = 'ingest';

-- Names a session by its key and its first call.
create macro session_id_of(session, first_call) as left(sha256(session || ':' || lower(hex(first_call))), 32);

-- A session is a run of calls of one session key with gaps of at most 30 minutes: from the end of what went on so far,
-- as far as any witness tells, to the start of the next call. Which of several calls of one instant is the first is
-- told by their ids: they are the same however files were numbered, so that a session's id is.
create view sessions as
with marked as (
    select *, coalesce(time - max(greatest(time, ended)) over earlier > interval 30 minutes, true)::int as starts
    from call_now where time is not null and kind = 'call'
    window earlier as (partition by session order by time rows between unbounded preceding and 1 preceding)
), numbered as (
    -- By range: whichever of one instant's calls was taken for the first, all of them are of its run.
    select *, sum(starts) over (partition by session order by time range unbounded preceding) as run from marked
)
select session_id_of(session, min({'at': time, 'stream': stream, 'id': call_id}).id) as session_id,
       session, min(actor) as actor, min(time) as first_at, max(greatest(time, ended)) as last_at, count(*) as calls,
       count(*) filter (ran = 'yes') as ran, count(*) filter (class in ('denied', 'declined', 'limited')) as denied,
       count(*) filter (class = 'error') as failed
from numbered group by session, run;

create view alert_now as
select * from alert_log qualify row_number() over (partition by alert_id order by seq desc) = 1;

-- Ids that lead to an alert that stands, that alert's own among them, where it has former ids or was decided about:
-- both are few, since late lines and people make them.
create view alert_member as
with recursive leads as (
    select old_id, arg_max(new_id, seq) as new_id from alert_alias group by old_id
), walk as (
    select old_id as member, new_id as alert_id, 1 as steps from leads
    union all
    -- A chain of aliases is short; the bound keeps a broken one from looping.
    select w.member, l.new_id, w.steps + 1 from walk w join leads l on l.old_id = w.alert_id where w.steps < 64
)
select member, alert_id from walk where alert_id not in (select old_id from leads)
union all
select id, id from (select new_id as id from leads union select alert_id from decision_log)
where id not in (select old_id from leads);

-- Ids among these that were alerts of their own: one that began as another's new id is that other alert.
create view alert_origin as
with began as (
    select alert_id, min(seq) as seq from alert_log
    where alert_id in (select old_id from alert_alias union all select new_id from alert_alias)
    group by alert_id
), came as (
    select new_id as alert_id, min(seq) as seq from alert_alias group by new_id
)
select began.alert_id as member from began left join came using (alert_id)
where came.seq is null or began.seq < came.seq;

-- What people made of such an alert; any other is open. Of each of its ids the last decision counts, and an alert of
-- its own that nobody decided about is open; open beats acknowledged beats closed.
create view alert_state as
with said as (
    select alert_id as member, max(seq) as seq, arg_max({'state': state, 'close_reason': close_reason}, seq) as word
    from decision_log group by alert_id
), stands as (
    select m.alert_id, coalesce(s.seq, 0) as seq, coalesce(s.word, {'state': 'open', 'close_reason': null}) as word
    from alert_member m left join said s using (member)
    where s.member is not null or m.member in (select member from alert_origin)
), strongest as (
    select alert_id, arg_max(word, (case word.state when 'open' then 2 when 'acknowledged' then 1 else 0 end, seq)) as word
    from stands group by alert_id
)
select alert_id, word.state as state, word.close_reason as close_reason from strongest;

create view alerts as
select lower(hex(a.alert_id)) as alert_id, a.rule, a.title, a.level, coalesce(d.state, 'open') as status, d.close_reason,
       a.group_by as "group", a.actor, a.first_seen, a.last_seen, a.count, a.retracted, a.tags
from alert_now a left join alert_state d using (alert_id)
where a.alert_id not in (select old_id from alert_alias);

-- Every tool that was called, with what the catalogue says it can do: yes, no or unknown.
create view tools as
select l.server, l.tool, c.calls, c.first_at, c.last_at, l.open_world, l.sensitive, l.outbound, l.destructive, l.read_only,
       l.labels_from
from tool_label l left join (
    select server, tool, count(*) as calls, min(time) as first_at, max(time) as last_at from call_now where kind = 'call' group by all
) c on c.tool = l.tool and c.server is not distinct from l.server;

-- The calls an alert rests on, and the stage each filled.
create view alert_calls as
select lower(hex(e.alert_id)) as alert_id, e.evidence->>'stage' as stage, lower(hex(e.call_id)) as call_id
from evidence_log e join alert_now a on a.alert_id = e.alert_id and a.evidence_seq = e.evidence_seq;

-- How far the lower stream's clock runs ahead of the upper's (behind it, where negative), per UTC day, as the joins of
-- the two show: the weighted median of the bins, and the distance from it within which 90 % of the joins lie.
create view clocks as
with bins as (
    select date_trunc('day', slot)::date as day, upper, lower, bin_ms::bigint as bin_ms, sum(samples)::bigint as joins
    from clock_log group by all having sum(samples) > 0
), ranked as (
    select *, sum(joins) over (partition by day, upper, lower) as total,
           sum(joins) over (partition by day, upper, lower order by bin_ms) as up_to
    from bins
), centred as (
    select *, min(case when 2 * up_to >= total then bin_ms end) over (partition by day, upper, lower) as middle
    from ranked
), near as (
    select *, abs(bin_ms - middle) as distance,
           sum(joins) over (partition by day, upper, lower order by abs(bin_ms - middle)) as within
    from centred
)
select day, upper as upper_stream, lower as lower_stream, any_value(total)::bigint as samples,
       any_value(middle) as offset_ms, min(case when 10 * within >= 9 * total then distance end) as spread_ms
from near group by day, upper, lower;
