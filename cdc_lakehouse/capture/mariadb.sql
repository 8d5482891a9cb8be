-- What capture asks MariaDB and MySQL, as in postgresql.sql.

-- section: tables
SELECT CONCAT(table_schema, '.', table_name) AS `table`, table_rows AS size FROM information_schema.tables
WHERE table_type = 'BASE TABLE' AND table_schema = DATABASE() ORDER BY 1

-- section: lacks
SELECT * FROM (SELECT 'log_bin' AS k, IF(@@log_bin, 'ON', 'OFF') AS v, 'ON' AS wanted
  UNION ALL SELECT 'binlog_format', @@binlog_format, 'ROW'
  UNION ALL SELECT 'binlog_row_image', @@binlog_row_image, 'FULL') AS s WHERE v <> wanted
-- found: {k} is {v}
-- do: in my.cnf: {k} = {wanted}, then restart the server

-- section: made
SELECT 1 FROM information_schema.tables
WHERE table_comment = '{made}' AND CONCAT(table_schema, '.', table_name) = :signals
-- found: table {signals}
-- do: DROP TABLE {signals}

-- section: publication
SELECT 1
-- do: CREATE TABLE IF NOT EXISTS {signals} ({columns}) COMMENT '{made}'
