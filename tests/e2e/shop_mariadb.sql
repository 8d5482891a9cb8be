CREATE TABLE customers(
  id bigint AUTO_INCREMENT PRIMARY KEY, email varchar(120) NOT NULL UNIQUE, name text NOT NULL,
  tier enum('bronze','silver','gold') NOT NULL DEFAULT 'bronze', prefs json, tags set('a','b','c'), joined date,
  created_at timestamp(6) NOT NULL DEFAULT current_timestamp(6)) COMMENT 'People: who buy';
CREATE TABLE products(
  sku varchar(40) PRIMARY KEY, name varchar(80) NOT NULL, price decimal(12,2) NOT NULL, weight double, active bit(1) NOT NULL DEFAULT 1,
  description mediumtext, updated_at datetime(6));
CREATE TABLE orders(
  id bigint unsigned AUTO_INCREMENT PRIMARY KEY, customer_id bigint NOT NULL, FOREIGN KEY (customer_id) REFERENCES customers(id),
  status enum('new','paid','shipped','cancelled') NOT NULL DEFAULT 'new', total decimal(12,2), placed_on date,
  placed_at timestamp(6) NULL, note text);
CREATE TABLE order_items(
  order_id bigint unsigned NOT NULL, line_no int NOT NULL, sku varchar(40) NOT NULL, qty int NOT NULL, unit_price decimal(12,2),
  PRIMARY KEY(order_id, line_no), FOREIGN KEY (order_id) REFERENCES orders(id));
-- no key at all; rows may repeat
CREATE TABLE clicks(session varchar(40), url text, at datetime(3));
-- the table whose shape changes
CREATE TABLE accounts(id int PRIMARY KEY, owner text, balance int, legacy text);
-- the table that is truncated
CREATE TABLE staging(id int PRIMARY KEY, payload text);
CREATE TABLE `Mixed Case`(`Id` int PRIMARY KEY, `Full Name` text, `select` text, `a.b` int);
CREATE TABLE kitchen_sink(
  id varchar(40) PRIMARY KEY, c_tiny tinyint, c_utiny tinyint unsigned, c_flag tinyint(1), c_usmall smallint unsigned,
  c_medium mediumint, c_uint int unsigned, c_bigint bigint, c_ubigint bigint unsigned, c_dec decimal(12,2), c_dec38 decimal(38,10),
  c_dec65 decimal(65,30), c_float float, c_double double, c_bit1 bit(1), c_bit10 bit(10), c_char char(6), c_varchar varchar(40),
  c_text text, c_latin varchar(20) CHARACTER SET latin1, c_enum enum('a','b ü'), c_set set('x','y','z'), c_json json, c_binary binary(4),
  c_varbinary varbinary(9), c_blob blob, c_longblob longblob, c_date date, c_time time, c_time6 time(6), c_year year, c_dt datetime,
  c_dt3 datetime(3), c_dt6 datetime(6), c_ts timestamp NULL, c_ts6 timestamp(6) NULL);
CREATE TABLE dbz_signal(id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));
