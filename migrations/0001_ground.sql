-- The ground. Tables hold what the one writer appends; the views below them are what people query.
-- No primary keys, no unique constraints, no secondary indexes: they cost speed and a stream of engine bugs, and
-- double rows are ruled out by construction (a read position commits with what was read).

-- Facts about the database itself: when it was made, the key of the argument hashes.
create table meta (name varchar not null, value varchar not null);

-- One row for every change of a source's reading position, path or state; the row with the highest seq counts.
create table position_log (
    seq ubigint not null,
    generation ubigint not null,
    stream varchar not null,
    path varchar not null,
    dev ubigint not null,
    inode ubigint not null,
    state varchar not null,
    size ubigint not null,
    -- Bytes read and committed.
    "offset" ubigint not null,
    head_len uinteger not null,
    head_hash blob not null,
    tail_len uinteger not null,
    tail_hash blob not null,
    -- The last valid time in the generation so far: lines without one take it.
    last_at timestamp,
    -- When something was last read of it, by the clock: a log can fall silent.
    heard_at timestamp,
    -- Lines before this offset were there when the database was made: history, which is not mailed.
    history_until ubigint not null,
    records ubigint not null,
    rejects ubigint not null
);

create table record_log (
    generation ubigint not null,
    "offset" ubigint not null,
    idx uinteger not null,
    length ubigint not null,
    stream varchar not null,
    time timestamp,
    time_quality varchar not null,
    dialect varchar not null,
    witness varchar not null,
    kind varchar not null,
    class varchar not null,
    code varchar not null,
    detail varchar,
    tool varchar,
    bare_tool varchar,
    server varchar,
    args varchar,
    request_id varchar,
    group_id varchar,
    trace_id varchar,
    tool_use_id varchar,
    principal varchar,
    client varchar,
    tenant varchar,
    session varchar,
    duration_ms double,
    flags varchar,
    also varchar,
    extra varchar
);

-- Lines that could not become records: kept, counted, shown.
create table reject_log (
    generation ubigint not null,
    "offset" ubigint not null,
    length ubigint not null,
    reason varchar not null,
    head varchar not null
);

-- Bytes that hold no line to read: blank lines, holes of NULs.
create table gap_log (
    generation ubigint not null,
    "offset" ubigint not null,
    length ubigint not null,
    why varchar not null
);

create table call_log (
    -- The batch that wrote the row.
    seq ubigint not null,
    call_id blob not null,
    time timestamp,
    ended timestamp,
    stream varchar not null,
    -- The lead witness's first record.
    generation ubigint not null,
    "offset" ubigint not null,
    idx uinteger not null,
    length ubigint not null,
    witness varchar not null,
    dialect varchar not null,
    tool varchar not null,
    bare_tool varchar not null,
    server varchar,
    principal varchar,
    client varchar,
    actor varchar not null,
    tenant varchar,
    session varchar not null,
    class varchar not null,
    code varchar not null,
    decision varchar,
    ran varchar not null,
    duration_ms double,
    ask_to_answer_ms double,
    args varchar,
    flags varchar,
    also varchar,
    request_id varchar,
    group_id varchar,
    trace_id varchar,
    witnesses varchar not null,
    -- Every witness's steps as JSON; null where the call has one witness with one record, which the columns tell whole.
    sightings varchar,
    discrepancies varchar,
    -- `call`, or `ingest` for what reading a log showed about the log itself.
    kind varchar not null
);

-- Rows of call_log with this id and an older seq are void; new_id is the call that took their place, if any.
create table call_superseded (call_id blob not null, before_seq ubigint not null, new_id blob);

-- Former ids of calls whose void rows are gone: links still lead somewhere. An id can have been void more than once;
-- the row with the highest before_seq counts.
create table call_alias (old_id blob not null, new_id blob not null, before_seq ubigint not null);

-- One row for every new or changed alert; the row with the highest seq counts.
create table alert_log (
    seq ubigint not null,
    alert_id blob not null,
    rule varchar not null,
    title varchar not null,
    level varchar not null,
    tags varchar not null,
    -- The group-by fields and values as JSON pairs, in the rule's order.
    group_by varchar not null,
    actor varchar not null,
    first_seen timestamp,
    last_seen timestamp,
    closing blob not null,
    closing_at timestamp,
    count ubigint not null,
    why varchar not null,
    elided ubigint not null,
    retracted varchar,
    -- The rows of evidence_log that belong to it now.
    evidence_seq ubigint not null
);

-- The calls an alert rests on, with their masked raw lines, as JSON: they outlive the logs.
create table evidence_log (
    alert_id blob not null,
    evidence_seq ubigint not null,
    ordinal uinteger not null,
    call_id blob not null,
    evidence varchar not null
);

-- Former ids of alerts.
create table alert_alias (old_id blob not null, new_id blob not null, seq ubigint not null);

-- What people decided.
create table decision_log (
    seq ubigint not null,
    alert_id blob not null,
    time timestamp not null,
    who varchar not null,
    state varchar not null,
    close_reason varchar,
    note varchar not null
);

-- Mails that are owed, one row a recipient, written with the alert in one transaction.
create table outbox (
    id ubigint not null,
    alert_id blob not null,
    recipient varchar not null,
    message_id varchar not null,
    created_at timestamp not null
);

-- What became of each attempt to send one.
create table delivery_log (
    outbox_id ubigint not null,
    time timestamp not null,
    outcome varchar not null,
    next_at timestamp,
    error varchar
);

-- What the catalogue in force says of every tool that was called; written anew at each start.
create table tool_label (
    server varchar,
    tool varchar not null,
    open_world varchar not null,
    sensitive varchar not null,
    outbound varchar not null,
    destructive varchar not null,
    read_only varchar not null,
    labels_from varchar not null
);

-- Where the journal stood at a commit; the row with the highest seq counts. Its entries may not be fewer later.
create table journal_mark (seq ubigint not null, entries ubigint not null, hash varchar not null);

-- First calls that showed a value of a first-seen rule's last field; the row of a key with the highest seq counts.
create table first_seen_log (
    seq ubigint not null,
    rule varchar not null,
    -- The group-by fields but the last, and their values, as JSON pairs; then the last.
    others varchar not null,
    field varchar not null,
    value varchar not null,
    time timestamp not null,
    stream varchar not null,
    call_id blob not null,
    tool varchar not null,
    server varchar,
    code varchar not null,
    is_gone boolean not null,
    -- From the journal or an older database: its call may be in none of these tables.
    is_remembered boolean not null
);

-- Since when a log near the work and a client's log tell of calls together, by whom the calls name; the row of a pair
-- with the highest seq counts, and without a time it is none.
create table pair_log (
    seq ubigint not null,
    lower_stream varchar not null,
    upper_stream varchar not null,
    principal varchar,
    client varchar,
    first_at timestamp
);

-- Up to which batch it was judged whom calls lack as a witness, and up to which time who fell silent; the row with the
-- highest seq counts.
create table absence_log (seq ubigint not null, judged_seq ubigint not null, closed_at timestamp);

-- What joins show about the clocks of two streams: one row for a change in the number of joins of that time whose
-- measured difference (lower minus upper) falls into that bin. The sums over all rows count.
create table clock_log (
    seq ubigint not null,
    slot timestamp not null,
    -- The stream nearer to the person who asked, and the one nearer to the work.
    upper varchar not null,
    lower varchar not null,
    -- The middle of the bin, in milliseconds.
    bin_ms integer not null,
    -- Less than zero where joins were taken back.
    samples bigint not null
);

-- What a day's calls of two streams are joined with; the newest row counts, and nulls say that too little was measured.
create table clock_use_log (
    seq ubigint not null,
    slot timestamp not null,
    upper varchar not null,
    lower varchar not null,
    -- Lower minus upper.
    offset_micros bigint,
    -- How far from there a record of the same call may be.
    tolerance_micros bigint
);
