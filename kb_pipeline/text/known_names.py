"""Languages, tools and systems by name: what a text is about, whatever the case it is written in.

Belongs here: names that a reader of technical texts takes for one thing, with their short forms. Does not belong here:
names of a team's own things, which no list can hold.

A name that is an English word as well ("go", "rust", "make", "word") counts only with a capital, and not as the first
word of a clause.
"""

from __future__ import annotations

from kb_pipeline.text.wordlists import closed_list

_SHORT_FORMS = {
    "golang": "go",
    "js": "javascript",
    "cpp": "c++",
    "csharp": "c#",
    "objective-c": "objectivec",
    "postgres": "postgresql",
    "psql": "postgresql",
    "mssql": "sqlserver",
    "mongo": "mongodb",
    "k8s": "kubernetes",
    "kube": "kubernetes",
    "yml": "yaml",
    "jpg": "jpeg",
    "htm": "html",
    "osx": "macos",
    "node.js": "nodejs",
    "next.js": "nextjs",
    "nuxt.js": "nuxtjs",
    "vue.js": "vue",
    "react.js": "react",
    "asp.net": "aspnet",
}
_NAMES = closed_list(
    # languages
    "python java javascript typescript kotlin scala clojure haskell erlang elixir ocaml perl php lua julia fortran cobol "
    "fsharp vba matlab sql graphql bash zsh powershell assembly wasm webassembly c++ c# f# objectivec groovy "
    # formats and protocols
    "json jsonl yaml toml xml csv tsv html css scss sass markdown latex parquet avro protobuf msgpack pdf png jpeg gif svg "
    "webp mp3 mp4 wav http https grpc websocket websockets soap smtp imap ftp sftp ssh mqtt amqp dns tcp udp tls ssl oauth "
    "saml ldap jwt utf-8 utf8 utf-16 utf16 ascii unicode "
    # systems and environments
    "linux macos ubuntu debian fedora centos redhat alpine archlinux freebsd ios android nodejs deno "
    # data
    "postgresql mysql mariadb sqlite sqlserver mongodb redis memcached cassandra dynamodb cosmosdb elasticsearch opensearch "
    "clickhouse bigquery redshift duckdb neo4j influxdb cockroachdb kafka rabbitmq nats zookeeper etcd airflow "
    "dagster dbt hadoop "
    # infrastructure
    "docker podman kubernetes kubectl terraform ansible pulumi vagrant nginx haproxy traefik envoy istio prometheus grafana "
    "datadog sentry jenkins circleci github gitlab bitbucket git svn aws gcp azure gke eks aks cloudflare heroku vercel "
    "netlify "
    # libraries and frameworks
    "nextjs nuxtjs angular svelte jquery webpack vite esbuild eslint biome vitest playwright selenium "
    "pytest unittest junit django fastapi sqlalchemy pandas numpy polars pytorch tensorflow keras scikit-learn springboot "
    "hibernate aspnet dotnet tailwind tailwindcss vue redux "
    # package managers and editors
    "npm pnpm pip conda pipenv maven gradle sbt homebrew chocolatey vscode intellij pycharm emacs vim neovim jira slack"
)
_CAPITAL_NAMES = closed_list(
    "go rust swift ruby crystal dart elm zig windows chrome firefox safari react express flask spring rails laravel symfony "
    "helm consul vault nomad oracle snowflake excel cargo composer bun yarn jest mocha cypress rollup bootstrap spark flink "
    "hive presto trino unix confluence eclipse"
)


def known_name(core: str, *, opens_clause: bool = False) -> str | None:
    """The one name for the thing that ``core`` names, or None.

    ``opens_clause`` says that the word is the first of its clause, where a capital says nothing.
    """
    lowered = core.lower()
    name = _SHORT_FORMS.get(lowered, lowered)
    if name in _NAMES:
        return name
    if name in _CAPITAL_NAMES and (lowered == "golang" or (core[:1].isupper() and not opens_clause)):
        return name
    return None
