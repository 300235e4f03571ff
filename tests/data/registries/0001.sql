-- The tables of revision 0001 on SQLite, as a registry of it has them. After the first release it never changes.
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  PRIMARY KEY (version_num)
);
CREATE TABLE audit (
  id INTEGER NOT NULL,
  at DATETIME NOT NULL,
  who VARCHAR(255) NOT NULL,
  action VARCHAR(64) NOT NULL,
  subject VARCHAR(255) NOT NULL,
  why TEXT NOT NULL,
  "before" JSON NOT NULL,
  "after" JSON NOT NULL,
  epoch INTEGER DEFAULT '1' NOT NULL,
  previous VARCHAR(64) DEFAULT '' NOT NULL,
  hash VARCHAR(64) DEFAULT '' NOT NULL,
  CONSTRAINT pk_audit PRIMARY KEY (id)
);
CREATE TABLE authorities (
  certificate TEXT NOT NULL,
  created_at DATETIME NOT NULL,
  CONSTRAINT pk_authorities PRIMARY KEY (certificate)
);
CREATE TABLE backup_repositories (
  instance_id CHAR(32) NOT NULL,
  password TEXT NOT NULL,
  access_key TEXT,
  secret_key TEXT,
  issued_at DATETIME,
  restored_by CHAR(32),
  CONSTRAINT pk_backup_repositories PRIMARY KEY (instance_id),
  CONSTRAINT fk_backup_repositories_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE backups (
  id VARCHAR(64) NOT NULL,
  instance_id CHAR(32) NOT NULL,
  at DATETIME NOT NULL,
  why VARCHAR(255) NOT NULL,
  bytes BIGINT NOT NULL,
  added BIGINT NOT NULL,
  state JSON NOT NULL,
  checked_at DATETIME,
  checked TEXT NOT NULL,
  CONSTRAINT pk_backups PRIMARY KEY (id),
  CONSTRAINT fk_backups_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE billing_events (
  id INTEGER NOT NULL,
  received_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL,
  body BLOB,
  signature TEXT,
  state VARCHAR(16) DEFAULT 'queued' NOT NULL,
  event_id VARCHAR(255),
  type VARCHAR(64),
  subscription_id VARCHAR(255),
  user_id CHAR(32),
  prices JSON,
  status VARCHAR(32),
  created_at DATETIME,
  started_at DATETIME,
  pause VARCHAR(32),
  deliveries INTEGER DEFAULT '1' NOT NULL,
  detail TEXT DEFAULT '' NOT NULL,
  operation_id CHAR(32),
  due_at DATETIME,
  decided_at DATETIME,
  CONSTRAINT pk_billing_events PRIMARY KEY (id),
  CONSTRAINT uq_billing_events_event_id UNIQUE (event_id),
  CONSTRAINT fk_billing_events_operation_id FOREIGN KEY(operation_id) REFERENCES operations (id)
);
CREATE TABLE break_glass_orders (
  id VARCHAR(32) NOT NULL,
  instance_id CHAR(32) NOT NULL,
  machine_id VARCHAR(64) NOT NULL,
  text TEXT NOT NULL,
  signature TEXT NOT NULL,
  source VARCHAR(64) NOT NULL,
  host_key TEXT NOT NULL,
  who VARCHAR(255) NOT NULL,
  why TEXT NOT NULL,
  created_at DATETIME NOT NULL,
  expires_at DATETIME NOT NULL,
  opened_at DATETIME,
  withdrawn_at DATETIME,
  closed_at DATETIME,
  outcome TEXT NOT NULL,
  address VARCHAR(64) NOT NULL,
  CONSTRAINT pk_break_glass_orders PRIMARY KEY (id),
  CONSTRAINT fk_break_glass_orders_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE cells (
  name VARCHAR(64) NOT NULL,
  region VARCHAR(64) NOT NULL,
  created_at DATETIME NOT NULL,
  only_plan VARCHAR(16),
  applied_at DATETIME,
  CONSTRAINT pk_cells PRIMARY KEY (name)
);
CREATE TABLE certificates (
  serial VARCHAR(40) NOT NULL,
  "key" VARCHAR(64) NOT NULL,
  machine_id VARCHAR(64) NOT NULL,
  instance_id CHAR(32),
  cell VARCHAR(64),
  issued_at DATETIME NOT NULL,
  not_after DATETIME NOT NULL,
  revoked_at DATETIME,
  why TEXT NOT NULL,
  CONSTRAINT pk_certificates PRIMARY KEY (serial),
  CONSTRAINT fk_certificates_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE data_keys (
  volume_id CHAR(32) NOT NULL,
  machine_id VARCHAR(64) NOT NULL,
  instance_id CHAR(32),
  "key" TEXT,
  created_at DATETIME NOT NULL,
  destroyed_at DATETIME,
  CONSTRAINT pk_data_keys PRIMARY KEY (volume_id),
  CONSTRAINT fk_data_keys_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE exposures (
  instance_id CHAR(32) NOT NULL,
  release VARCHAR(64) NOT NULL,
  at DATETIME NOT NULL,
  CONSTRAINT pk_exposures PRIMARY KEY (instance_id, release),
  CONSTRAINT fk_exposures_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE freezes (
  id VARCHAR(16) NOT NULL,
  begins_at DATETIME NOT NULL,
  ends_at DATETIME,
  reason TEXT NOT NULL,
  who VARCHAR(255) NOT NULL,
  lifted_at DATETIME,
  CONSTRAINT pk_freezes PRIMARY KEY (id)
);
CREATE TABLE health_samples (
  instance_id CHAR(32) NOT NULL,
  at DATETIME NOT NULL,
  reading TEXT NOT NULL,
  CONSTRAINT pk_health_samples PRIMARY KEY (instance_id, at),
  CONSTRAINT fk_health_samples_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE hermes_connections (
  id CHAR(32) NOT NULL,
  instance_id CHAR(32) NOT NULL,
  service VARCHAR(64) NOT NULL,
  access_token TEXT NOT NULL,
  refresh_token TEXT,
  scopes JSON NOT NULL,
  expires_at DATETIME,
  connected_at DATETIME NOT NULL,
  CONSTRAINT pk_hermes_connections PRIMARY KEY (id),
  CONSTRAINT fk_hermes_connections_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE hermes_instances (
  id CHAR(32) NOT NULL,
  user_id CHAR(32) NOT NULL,
  "plan" VARCHAR(5) NOT NULL,
  vm_id VARCHAR(64),
  vm_ip VARCHAR(45),
  proxy_token VARCHAR(1024),
  status VARCHAR(12) NOT NULL,
  stripe_subscription_id VARCHAR(255),
  created_at DATETIME NOT NULL,
  last_heartbeat DATETIME,
  CONSTRAINT pk_hermes_instances PRIMARY KEY (id),
  CONSTRAINT fk_hermes_instances_user_id FOREIGN KEY(user_id) REFERENCES users (id),
  CONSTRAINT ck_hermes_instances_hermes_plan CHECK ("plan" IN ('light', 'heavy')),
  CONSTRAINT ck_hermes_instances_hermes_instance_status CHECK (status IN ('provisioning', 'running', 'suspended', 'terminated'))
);
CREATE TABLE images (
  id VARCHAR(64) NOT NULL,
  name VARCHAR(64) NOT NULL,
  digest VARCHAR(64) NOT NULL,
  manifest JSON NOT NULL,
  created_at DATETIME NOT NULL,
  CONSTRAINT pk_images PRIMARY KEY (id)
);
CREATE TABLE instance_details (
  instance_id CHAR(32) NOT NULL,
  cell VARCHAR(64) NOT NULL,
  machine_name VARCHAR(128) NOT NULL,
  machine_wanted BOOLEAN NOT NULL,
  server_type VARCHAR(64) NOT NULL,
  region VARCHAR(64) NOT NULL,
  image_id VARCHAR(64),
  epoch INTEGER NOT NULL,
  settings TEXT NOT NULL,
  api_server_key TEXT NOT NULL,
  model_token_generation INTEGER NOT NULL,
  settings_before TEXT,
  grace_until DATETIME,
  model_token_expires_at DATETIME,
  model_token_handed_at DATETIME,
  reported_gateway VARCHAR(16),
  model_token_floor INTEGER,
  model_token_rotation VARCHAR(32),
  CONSTRAINT pk_instance_details PRIMARY KEY (instance_id),
  CONSTRAINT fk_instance_details_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id),
  CONSTRAINT fk_instance_details_cell FOREIGN KEY(cell) REFERENCES cells (name),
  CONSTRAINT uq_instance_details_machine_name UNIQUE (machine_name)
);
CREATE TABLE instance_policies (
  instance_id CHAR(32) NOT NULL,
  opted_in BOOLEAN NOT NULL,
  protected BOOLEAN NOT NULL,
  quiet_from VARCHAR(5) NOT NULL,
  quiet_until VARCHAR(5) NOT NULL,
  timezone VARCHAR(64) NOT NULL,
  CONSTRAINT pk_instance_policies PRIMARY KEY (instance_id),
  CONSTRAINT fk_instance_policies_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE instance_releases (
  instance_id CHAR(32) NOT NULL,
  release VARCHAR(64) NOT NULL,
  seen_at DATETIME NOT NULL,
  CONSTRAINT pk_instance_releases PRIMARY KEY (instance_id),
  CONSTRAINT fk_instance_releases_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE leases (
  subject VARCHAR(255) NOT NULL,
  holder VARCHAR(255) NOT NULL,
  epoch INTEGER NOT NULL,
  counter BIGINT NOT NULL,
  expires_at DATETIME NOT NULL,
  CONSTRAINT pk_leases PRIMARY KEY (subject)
);
CREATE TABLE machine_observations (
  machine_id VARCHAR(64) NOT NULL,
  name VARCHAR(255) NOT NULL,
  server_type VARCHAR(64) NOT NULL,
  status VARCHAR(32) NOT NULL,
  boot_id VARCHAR(64) NOT NULL,
  boot_seen_at DATETIME,
  CONSTRAINT pk_machine_observations PRIMARY KEY (machine_id)
);
CREATE TABLE meta (
  name VARCHAR(64) NOT NULL,
  value TEXT NOT NULL,
  CONSTRAINT pk_meta PRIMARY KEY (name)
);
CREATE TABLE model_budgets (
  "plan" VARCHAR(16) NOT NULL,
  tokens BIGINT,
  micros BIGINT,
  CONSTRAINT pk_model_budgets PRIMARY KEY ("plan")
);
CREATE TABLE model_usage (
  day DATE NOT NULL,
  instance_id CHAR(32) NOT NULL,
  model VARCHAR(64) NOT NULL,
  provider VARCHAR(32) NOT NULL,
  outcome VARCHAR(16) NOT NULL,
  requests BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  micros BIGINT NOT NULL,
  CONSTRAINT pk_model_usage PRIMARY KEY (day, instance_id, model, provider, outcome)
);
CREATE TABLE model_usage_batches (
  id VARCHAR(32) NOT NULL,
  at DATETIME NOT NULL,
  CONSTRAINT pk_model_usage_batches PRIMARY KEY (id)
);
CREATE TABLE operation_steps (
  id INTEGER NOT NULL,
  operation_id CHAR(32) NOT NULL,
  at DATETIME NOT NULL,
  step VARCHAR(255) NOT NULL,
  holder VARCHAR(255) NOT NULL,
  problem TEXT NOT NULL,
  CONSTRAINT pk_operation_steps PRIMARY KEY (id),
  CONSTRAINT fk_operation_steps_operation_id FOREIGN KEY(operation_id) REFERENCES operations (id)
);
CREATE TABLE operations (
  id CHAR(32) NOT NULL,
  kind VARCHAR(32) NOT NULL,
  subject VARCHAR(255) NOT NULL,
  instance_id CHAR(32),
  intent JSON NOT NULL,
  status VARCHAR(9) NOT NULL,
  step VARCHAR(255) NOT NULL,
  outcome TEXT NOT NULL,
  created_at DATETIME NOT NULL,
  updated_at DATETIME NOT NULL,
  CONSTRAINT pk_operations PRIMARY KEY (id),
  CONSTRAINT fk_operations_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id),
  CONSTRAINT ck_operations_operation_status CHECK (status IN ('pending', 'running', 'done', 'failed', 'abandoned'))
);
CREATE TABLE proxy_tokens (
  machine_id VARCHAR(64) NOT NULL,
  purpose VARCHAR(64) NOT NULL,
  token_id VARCHAR(64) NOT NULL,
  token TEXT NOT NULL,
  expires_at DATETIME NOT NULL,
  address VARCHAR(512) DEFAULT '' NOT NULL,
  CONSTRAINT pk_proxy_tokens PRIMARY KEY (machine_id, purpose)
);
CREATE TABLE relay_callers (
  serial VARCHAR(40) NOT NULL,
  name VARCHAR(31) NOT NULL,
  "key" VARCHAR(64) NOT NULL,
  issued_at DATETIME NOT NULL,
  not_after DATETIME NOT NULL,
  revoked_at DATETIME,
  why TEXT NOT NULL,
  CONSTRAINT pk_relay_callers PRIMARY KEY (serial)
);
CREATE TABLE releases (
  id VARCHAR(64) NOT NULL,
  digest VARCHAR(64) NOT NULL,
  agent_version VARCHAR(64) NOT NULL,
  created_at DATETIME NOT NULL,
  who VARCHAR(255) NOT NULL,
  revoked_at DATETIME,
  why TEXT NOT NULL,
  CONSTRAINT pk_releases PRIMARY KEY (id)
);
CREATE TABLE rollout_events (
  id INTEGER NOT NULL,
  rollout_id VARCHAR(64) NOT NULL,
  at DATETIME NOT NULL,
  kind VARCHAR(32) NOT NULL,
  decision JSON NOT NULL,
  evidence JSON NOT NULL,
  CONSTRAINT pk_rollout_events PRIMARY KEY (id),
  CONSTRAINT fk_rollout_events_rollout_id FOREIGN KEY(rollout_id) REFERENCES rollouts (id)
);
CREATE TABLE rollout_targets (
  rollout_id VARCHAR(64) NOT NULL,
  instance_id CHAR(32) NOT NULL,
  stage INTEGER NOT NULL,
  batch INTEGER NOT NULL,
  position INTEGER NOT NULL,
  facts JSON NOT NULL,
  progress JSON NOT NULL,
  state VARCHAR(16) NOT NULL,
  detail TEXT NOT NULL,
  touched_at DATETIME,
  updated_at DATETIME,
  held BOOLEAN NOT NULL,
  CONSTRAINT pk_rollout_targets PRIMARY KEY (rollout_id, instance_id),
  CONSTRAINT fk_rollout_targets_rollout_id FOREIGN KEY(rollout_id) REFERENCES rollouts (id),
  CONSTRAINT fk_rollout_targets_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id)
);
CREATE TABLE rollouts (
  id VARCHAR(64) NOT NULL,
  release VARCHAR(64) NOT NULL,
  action VARCHAR(16) NOT NULL,
  spec JSON NOT NULL,
  state VARCHAR(16) NOT NULL,
  reason TEXT NOT NULL,
  who VARCHAR(255) NOT NULL,
  created_at DATETIME NOT NULL,
  updated_at DATETIME NOT NULL,
  operation_id CHAR(32),
  decisions JSON NOT NULL,
  CONSTRAINT pk_rollouts PRIMARY KEY (id),
  CONSTRAINT fk_rollouts_operation_id FOREIGN KEY(operation_id) REFERENCES operations (id)
);
CREATE TABLE ssh_hosts (
  machine_id VARCHAR(64) NOT NULL,
  "key" TEXT NOT NULL,
  address VARCHAR(64) NOT NULL,
  reported_at DATETIME NOT NULL,
  CONSTRAINT pk_ssh_hosts PRIMARY KEY (machine_id)
);
CREATE TABLE unassigned_machines (
  name VARCHAR(128) NOT NULL,
  role VARCHAR(16) NOT NULL,
  instance_id CHAR(32),
  cell VARCHAR(64) NOT NULL,
  "plan" VARCHAR(16) NOT NULL,
  server_type VARCHAR(64) NOT NULL,
  region VARCHAR(64) NOT NULL,
  image_id VARCHAR(64),
  machine_id VARCHAR(64),
  wanted BOOLEAN NOT NULL,
  api_server_key TEXT,
  status VARCHAR(16) NOT NULL,
  epoch INTEGER NOT NULL,
  created_at DATETIME NOT NULL,
  ready_at DATETIME,
  CONSTRAINT pk_unassigned_machines PRIMARY KEY (name),
  CONSTRAINT fk_unassigned_machines_instance_id FOREIGN KEY(instance_id) REFERENCES hermes_instances (id),
  CONSTRAINT fk_unassigned_machines_cell FOREIGN KEY(cell) REFERENCES cells (name)
);
CREATE TABLE users (
  id CHAR(32) NOT NULL,
  alias VARCHAR(31),
  created_at DATETIME NOT NULL,
  CONSTRAINT pk_users PRIMARY KEY (id),
  CONSTRAINT uq_users_alias UNIQUE (alias)
);
CREATE INDEX ix_images_name ON images (name);
CREATE INDEX ix_audit_subject ON audit (subject);
CREATE TRIGGER audit_refuses_update BEFORE update ON audit BEGIN SELECT RAISE(ABORT, 'audit is only ever appended to'); END;
CREATE TRIGGER audit_refuses_delete BEFORE delete ON audit BEGIN SELECT RAISE(ABORT, 'audit is only ever appended to'); END;
CREATE INDEX ix_relay_callers_name ON relay_callers (name);
CREATE INDEX ix_model_usage_instance_id ON model_usage (instance_id);
CREATE INDEX ix_model_usage_batches_at ON model_usage_batches (at);
CREATE UNIQUE INDEX one_living_instance_per_user ON hermes_instances (user_id) WHERE status != 'terminated';
CREATE INDEX ix_hermes_connections_instance_id ON hermes_connections (instance_id);
CREATE INDEX ix_instance_details_cell ON instance_details (cell);
CREATE INDEX ix_unassigned_machines_cell ON unassigned_machines (cell);
CREATE INDEX ix_unassigned_machines_instance_id ON unassigned_machines (instance_id);
CREATE UNIQUE INDEX one_replacement_per_instance ON unassigned_machines (instance_id) WHERE role = 'replacement' AND wanted;
CREATE INDEX ix_operations_kind_created_at ON operations (kind, created_at);
CREATE INDEX ix_operations_instance_id ON operations (instance_id);
CREATE UNIQUE INDEX one_unfinished_operation_per_subject ON operations (subject, kind) WHERE status IN ('pending', 'running');
CREATE INDEX ix_backups_instance_id ON backups (instance_id);
CREATE INDEX ix_certificates_key ON certificates ("key");
CREATE INDEX ix_certificates_not_after ON certificates (not_after);
CREATE INDEX ix_certificates_machine_id ON certificates (machine_id);
CREATE INDEX ix_certificates_instance_id ON certificates (instance_id);
CREATE INDEX ix_data_keys_machine_id ON data_keys (machine_id);
CREATE INDEX ix_data_keys_instance_id ON data_keys (instance_id);
CREATE INDEX ix_break_glass_orders_machine_id ON break_glass_orders (machine_id);
CREATE INDEX ix_break_glass_orders_instance_id ON break_glass_orders (instance_id);
CREATE INDEX ix_exposures_at ON exposures (at);
CREATE INDEX ix_health_samples_at ON health_samples (at);
CREATE INDEX ix_operation_steps_operation_id ON operation_steps (operation_id);
CREATE INDEX ix_rollouts_release ON rollouts (release);
CREATE INDEX ix_billing_events_subscription_id ON billing_events (subscription_id);
CREATE INDEX ix_billing_events_user_id ON billing_events (user_id);
CREATE INDEX ix_billing_events_state_due_at ON billing_events (state, due_at);
CREATE INDEX ix_rollout_targets_instance_id ON rollout_targets (instance_id);
CREATE UNIQUE INDEX one_rollout_per_instance ON rollout_targets (instance_id) WHERE held;
CREATE INDEX ix_rollout_targets_state ON rollout_targets (state);
CREATE INDEX ix_rollout_events_rollout_id ON rollout_events (rollout_id);
INSERT INTO meta (name, value) VALUES ('epoch', '1');
INSERT INTO alembic_version (version_num) VALUES ('0001');
