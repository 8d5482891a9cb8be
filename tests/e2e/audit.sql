-- What triggers see of every row of the tables with a history, in the order of each row's changes.
CREATE SCHEMA audit;
CREATE TABLE audit.seen(
  place bigserial PRIMARY KEY, name text NOT NULL, op text NOT NULL, row jsonb NOT NULL);
CREATE FUNCTION audit.see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit.seen(name, op, row)
    VALUES (TG_TABLE_NAME, TG_OP, to_jsonb(CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END));
  RETURN NULL;
END $$;
CREATE TRIGGER seen AFTER INSERT OR UPDATE OR DELETE ON shop.customers
  FOR EACH ROW EXECUTE FUNCTION audit.see();
CREATE TRIGGER seen AFTER INSERT OR UPDATE OR DELETE ON shop.orders
  FOR EACH ROW EXECUTE FUNCTION audit.see();
