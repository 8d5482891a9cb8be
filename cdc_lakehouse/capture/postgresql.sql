-- What capture asks PostgreSQL: sections, and in them questions. For each row that a question finds
-- there is a sentence (found) and a statement (do), with the row's values in {}. This is before all:
WITH given AS (SELECT CAST(:name AS text) AS name, CAST(:signals AS text) AS signal_table,
  CAST(:tables AS text[]) AS tables, quote_ident(current_user) AS role),
slot AS (SELECT s.* FROM pg_replication_slots s, given WHERE slot_name = name),
publication AS (SELECT p.*, pg_has_role(pubowner, 'USAGE') AS is_own FROM pg_publication p, given WHERE pubname = name),
found AS (
  SELECT n.nspname || '.' || c.relname AS table, format('%I.%I', n.nspname, c.relname) AS quoted,
    quote_ident(n.nspname) AS schema, has_schema_privilege(n.oid, 'USAGE') AS is_open,
    pg_has_role(c.relowner, 'USAGE') AS is_own, given.*, c.*
  FROM given, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%'),
chosen AS (SELECT * FROM found WHERE found.table = ANY(tables)),
signal AS (SELECT * FROM found WHERE found.table = signal_table),
published AS (SELECT * FROM chosen UNION ALL SELECT * FROM signal),
missing AS (SELECT * FROM published WHERE published.table NOT IN (
  SELECT schemaname || '.' || tablename FROM pg_publication_tables, given WHERE pubname = given.name))

-- section: tables
SELECT found.table, greatest(reltuples, 0) AS size FROM found ORDER BY 1

-- section: lag
SELECT pg_current_wal_lsn() - confirmed_flush_lsn AS behind, pg_current_wal_lsn() - restart_lsn AS kept
FROM slot WHERE confirmed_flush_lsn IS NOT NULL

-- section: lacks
SELECT v FROM current_setting('server_version') v WHERE current_setting('server_version_num')::int < 140000
-- found: PostgreSQL {v}
-- do: upgrade it to 14 or newer

SELECT v FROM current_setting('wal_level') v WHERE v <> 'logical'
-- found: wal_level is {v}
-- do: ALTER SYSTEM SET wal_level = 'logical'; then restart the server

SELECT role FROM given, pg_roles WHERE rolname = current_user AND NOT (rolsuper OR rolreplication)
AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_replication' AND pg_has_role(oid, 'USAGE'))
-- found: {role} must not replicate
-- do: ALTER ROLE {role} REPLICATION; (on RDS: GRANT rds_replication TO …)

SELECT 1 FROM given, pg_get_keywords() WHERE word = name AND catcode IN ('R', 'T')
-- found: {name} is a word of SQL
-- do: change `name` in conf/capture.yml

SELECT what, setting FROM (
  VALUES ('replication slot', 'max_replication_slots', (SELECT count(*) FROM pg_replication_slots)),
  ('sender', 'max_wal_senders', (SELECT count(*) FROM pg_stat_replication))) v(what, setting, used)
WHERE used >= current_setting(setting)::int AND NOT EXISTS (SELECT FROM slot)
-- found: no {what} is free
-- do: ALTER SYSTEM SET {setting} = …; with a larger number, then restart the server

SELECT plugin, database FROM slot
WHERE plugin IS DISTINCT FROM 'pgoutput' OR database IS DISTINCT FROM current_database()
-- found: the slot {name} is of {plugin} in the database {database}
-- do: change `name` in conf/capture.yml

SELECT * FROM chosen WHERE NOT (is_open AND has_table_privilege(oid, 'SELECT'))
-- found: {role} must not read {table}
-- do: GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON {quoted} TO {role};

SELECT * FROM chosen WHERE relpersistence <> 'p'
-- found: {table} is unlogged
-- do: ALTER TABLE {quoted} SET LOGGED;

SELECT * FROM chosen WHERE row_security_active(oid)
-- found: row level security hides rows of {table} from {role}
-- do: ALTER ROLE {role} BYPASSRLS;

SELECT c.table, l.oid::regclass::text AS leaf FROM chosen c, pg_class l
WHERE (l.oid = c.oid OR l.oid IN (SELECT relid FROM pg_partition_tree(c.oid)))
AND l.relkind = 'r' AND l.relreplident <> 'f' AND NOT EXISTS (
  SELECT FROM pg_index i WHERE i.indrelid = l.oid
  AND (l.relreplident = 'd' AND i.indisprimary OR l.relreplident = 'i' AND i.indisreplident))
-- found: {leaf} has neither a primary key nor a REPLICA IDENTITY: once it is published, the application's own UPDATE would fail
-- do: ALTER TABLE {leaf} REPLICA IDENTITY FULL; or name it in `except`

SELECT role FROM given WHERE NOT EXISTS (SELECT FROM signal) AND NOT EXISTS (SELECT FROM pg_namespace
  WHERE nspname = split_part(signal_table, '.', 1) AND has_schema_privilege(oid, 'CREATE'))
-- found: no table {signals}, and {role} must not make it
-- do: CREATE TABLE {signals} ({columns}); ALTER TABLE {signals} OWNER TO {role};

SELECT role FROM signal WHERE NOT (has_table_privilege(oid, 'INSERT')
  AND has_table_privilege(oid, 'DELETE') AND has_table_privilege(oid, 'SELECT'))
-- found: {role} must not write into {signals}
-- do: GRANT INSERT, DELETE, SELECT ON {signals} TO {role};

SELECT role, (SELECT string_agg(quoted || ', ', '' ORDER BY quoted) FROM chosen) AS listed,
  coalesce('does not own ' || (SELECT string_agg(p.table, ', ') FROM published p WHERE NOT is_own),
    'must not CREATE in the database') AS why
FROM given WHERE NOT EXISTS (SELECT FROM publication) AND (EXISTS (SELECT FROM published WHERE NOT is_own)
  OR NOT has_database_privilege(current_database(), 'CREATE'))
-- found: no publication {name}; {role} {why}
-- do: as a superuser: CREATE PUBLICATION {name} FOR TABLE {listed}{signals} WITH (publish_via_partition_root = true);

SELECT 1 FROM publication WHERE NOT (pubinsert AND pubupdate AND pubdelete AND pubtruncate)
-- found: the publication {name} leaves out some operations
-- do: ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate');

SELECT 1 FROM publication WHERE NOT pubviaroot AND EXISTS (SELECT FROM chosen WHERE relkind = 'p')
-- found: the publication {name} shows partitions as tables
-- do: ALTER PUBLICATION {name} SET (publish_via_partition_root = true);

SELECT m.* FROM missing m, publication p WHERE NOT (puballtables OR p.is_own AND m.is_own)
-- found: {table} is not in the publication {name}
-- do: ALTER PUBLICATION {name} ADD TABLE {quoted};

-- section: readers
SELECT active_pid, coalesce(nullif(application_name, ''), 'another program') AS program
FROM slot LEFT JOIN pg_stat_replication ON pid = active_pid WHERE active
-- found: process {active_pid} of the server reads the slot {name}: {program}
-- do: stop that program, or choose another `name`; if it is gone: SELECT pg_terminate_backend({active_pid})

-- section: refusals
SELECT 1 FROM slot WHERE CAST(:is_new AS boolean)
-- found: the slot {name} is there, but not the state in {folder}
-- do: put the folder back, or: {again}

SELECT 1 FROM given WHERE CAST(:goes_on AS boolean)
AND NOT EXISTS (SELECT FROM slot WHERE wal_status IS DISTINCT FROM 'lost')
-- found: the slot {name} is gone: the changes since it was last read are lost
-- do: {again}

SELECT 1 FROM slot WHERE CAST(:goes_on AS boolean) AND confirmed_flush_lsn - '0/0' > nullif(CAST(:lsn AS numeric), 0)
-- found: the slot {name} is ahead of this capture: it was made anew, or read by another program; the changes in between are lost
-- do: {again}

-- section: made
SELECT 1 FROM publication WHERE obj_description(oid, 'pg_publication') = '{made}'
-- found: publication {name}
-- do: DROP PUBLICATION {name}

SELECT 1 FROM signal WHERE obj_description(oid, 'pg_class') = '{made}'
-- found: table {signals}
-- do: DROP TABLE {signals}

-- section: places
-- Beside a slot that is there the connector would read the log's position after its rows, and lose what commits in
-- between: a snapshot and its slot have to begin at one moment, so the slot goes before.
SELECT 1 FROM slot
-- found: slot {name}
-- do: SELECT pg_drop_replication_slot('{name}')

-- section: unpublished
SELECT m.table FROM missing m, publication WHERE NOT puballtables

-- section: publication
SELECT 1 FROM given WHERE NOT EXISTS (SELECT FROM signal)
-- do: DO $$BEGIN CREATE TABLE {signals} ({columns}); COMMENT ON TABLE {signals} IS '{made}'; END$$

-- What was written to a table before, by a transaction that commits later, would be in no record: neither published nor
-- in a snapshot that is taken now. So nobody may be writing.
SELECT listed FROM (SELECT string_agg(quoted, ', ') AS listed FROM missing) m
WHERE listed IS NOT NULL AND EXISTS (SELECT FROM publication WHERE NOT puballtables)
-- do: DO $$BEGIN SET LOCAL lock_timeout = '10s'; LOCK TABLE {listed} IN SHARE ROW EXCLUSIVE MODE; ALTER PUBLICATION {name} ADD TABLE {listed}; END$$

SELECT string_agg(quoted, ', ') AS listed FROM published HAVING NOT EXISTS (SELECT FROM publication)
-- do: DO $$BEGIN CREATE PUBLICATION {name} FOR TABLE {listed} WITH (publish_via_partition_root = true); COMMENT ON PUBLICATION {name} IS '{made}'; END$$
