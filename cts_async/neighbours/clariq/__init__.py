"""ClariQ (Aliannejadi, Kiseleva, Chuklin, Dalton and Burtsev, EMNLP 2021): when and what to ask, in three tasks."""
