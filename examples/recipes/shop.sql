-- The tables of the recipes, which your own migrations would make.
create table customer_order (
  id int generated always as identity primary key,
  customer text not null,
  total int not null,
  paid boolean not null default false
);
create table invoice (
  order_id int not null references customer_order
);
