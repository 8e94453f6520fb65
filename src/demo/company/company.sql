-- name: tables
-- Tables of the demo's departments. The tables have no unique constraints, so that the proof can find duplicates.
create table report (night timestamptz not null, attempt integer not null, fence bigint not null, written_by text not null);

create table "order" (id integer generated always as identity primary key, billed_at timestamptz);
create table invoice (
  order_id integer not null,
  job bigint not null,
  attempt integer not null,
  fence bigint not null,
  written_by text not null
);

create table customer (
  id integer generated always as identity primary key,
  domain text not null,
  created_at timestamptz not null default now()
);
create table step (
  customer integer not null,
  step text not null,
  domain text,
  began_at timestamptz not null,
  ended_at timestamptz not null default clock_timestamp(),
  written_by text not null
);

create table booking (event text not null, fence bigint not null, written_by text not null);
-- Events for which the payment provider has received a response with status 201.
create table acknowledged (event text not null);

create table export (
  customer integer not null,
  began_at timestamptz not null,
  ended_at timestamptz not null,
  written_by text not null
);

create table building (id integer generated always as identity primary key, city text not null, number integer, written_by text);
create index building_city on building (city, number);

create table document (id integer generated always as identity primary key);
create table indexed (id bigint generated always as identity, document integer not null, term bigint not null, written_by text not null);

create table entry (
  id bigint generated always as identity,
  number integer not null,
  amount integer not null,
  balance integer not null,
  fence bigint not null,
  written_by text not null
);
create index entry_number on entry (number);

create table exchange_rate (
  id bigint generated always as identity,
  rate numeric not null,
  fence bigint not null,
  written_by text not null
);
