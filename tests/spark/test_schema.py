from pathlib import Path

from pyspark.sql.pandas.types import to_arrow_schema

from braidmq.spark.schema import ARROW_SCHEMA, spark_schema


def test_what_spark_makes_of_the_schema_is_what_our_record_batches_have() -> None:
    assert to_arrow_schema(spark_schema(), timezone="UTC") == ARROW_SCHEMA


def test_the_first_example_of_the_documentation_is_the_one_that_runs() -> None:
    root = Path(__file__).parents[2]
    code = (root / "examples" / "spark_stream.py").read_text()
    compile(code, "spark_stream.py", "exec")
    shown = (root / "docs" / "spark.md").read_text().split("```python\n")[1].split("```")[0]
    assert code.endswith(shown)
