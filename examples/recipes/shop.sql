-- Tables for the recipes. In your program, your own migrations create such tables.
create table customer_order (
  id int generated always as identity primary key,
  customer text not null,
  total int not null,
  paid boolean not null default false
);
create table invoice (
  order_id int not null references customer_order
);
