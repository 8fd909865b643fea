-- An alert that grows writes what it grew by, and what is shown of a call is written once for several alerts.

-- What is shown of a call that alerts rest on, with its masked raw lines, as JSON: it outlives the logs.
create table evidence_text_log (seq ubigint not null, number uinteger not null, evidence varchar not null);

-- The calls that alerts rest on. Those of a set belong to the alert whose evidence_seq it is, but for those that are gone.
create table evidence_row_log (
    alert_id blob not null,
    -- The set: the number of the batch that began it.
    evidence_seq ubigint not null,
    -- Counted from 0 within the set, over all batches that added to it.
    number uinteger not null,
    call_id blob not null,
    stage varchar not null,
    -- The call's place in the order of calls; where there is none, the number tells the order.
    time timestamp,
    stream varchar,
    generation ubigint,
    "offset" ubigint,
    idx uinteger,
    text_seq ubigint not null,
    text_number uinteger not null
);

-- Rows of a set that the alert rests on no longer, or that another one says anew.
create table evidence_gone_log (alert_id blob not null, evidence_seq ubigint not null, number uinteger not null);

-- Few columns tell which row is the newest: an alert that went on for long has many.
create or replace view alert_now as
select a.* from alert_log a semi join (select alert_id, max(seq) as seq from alert_log group by alert_id) newest
    on newest.alert_id = a.alert_id and newest.seq = a.seq
qualify row_number() over (partition by a.alert_id order by a.seq desc) = 1;

create view evidence_now as
select r.* from evidence_row_log r semi join alert_now a on a.alert_id = r.alert_id and a.evidence_seq = r.evidence_seq
where not exists (
    from evidence_gone_log g
    where g.alert_id = r.alert_id and g.evidence_seq = r.evidence_seq and g.number = r.number
);

create or replace view alert_calls as
select lower(hex(alert_id)) as alert_id, stage, lower(hex(call_id)) as call_id from evidence_now;

-- What an older database holds moves over.
-- Each row keeps the number that it had in the old table, and nothing is sorted: rows are wide, and memory may be small.
insert into evidence_text_log
select 0, e.rowid::uinteger, e.evidence
from evidence_log e semi join alert_now a on a.alert_id = e.alert_id and a.evidence_seq = e.evidence_seq;
insert into evidence_row_log
select e.alert_id, e.evidence_seq, e.ordinal, e.call_id, coalesce(e.evidence->>'stage', ''),
    null, null, null, null, null, 0, e.rowid::uinteger
from evidence_log e semi join alert_now a on a.alert_id = e.alert_id and a.evidence_seq = e.evidence_seq;
drop table evidence_log;
