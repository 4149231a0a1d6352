"""The built-in deny lists, written as rule files.

A negated rule undoes any line of the first. What the second names comes in only by a negated
rule that names the very file, without wildcards.
"""

from typing import Final

# A line with a slash before its end is followed into every folder, and one with a star inside is
# tried on every name; a few cost microseconds, so there are few.
DEFAULT_RULES: Final = rb"""
# Version control and our own state: not content.
.git
.merkle
.hg/
.svn/
.bzr/
.jj/
.sl/

# Installed dependencies: somebody else's source, restored from a manifest.
node_modules/
bower_components/
jspm_packages/
__pypackages__/
.pnpm-store/

# Virtual environments.
.venv/
venv/
.virtualenv/
.direnv/
.conda/
.env/

# Caches: tools write them during every run.
__pycache__/
.cache/
.pytest_cache/
.mypy_cache/
.ruff_cache/
.pytype/
.pyre/
.hypothesis/
.tox/
.nox/
.eggs/
.ipynb_checkpoints/
.parcel-cache/
.turbo/
.nx/
.sass-cache/
.eslintcache
.stylelintcache
.nyc_output/
.coverage
.coverage.*
!.coveragerc
htmlcov/
.terraform/
.bloop/
.metals/
.dart_tool/

# Build output: made from files that are indexed.
build/
dist/
target/
cmake-build-*/
CMakeFiles/
DerivedData/
dist-newstyle/
.stack-work/
.gradle/
.next/
.nuxt/
.svelte-kit/
.angular/
.docusaurus/
.serverless/
.aws-sam/
.zig-cache/
zig-cache/
elm-stuff/
*.egg-info/
*.pyc
*.pyo
*.class
*.o
*.obj

# Droppings of operating systems and editors.
.DS_Store
Thumbs.db
desktop.ini
.Spotlight-V100/
.Trashes/
.fseventsd/
.Trash-*/
.nfs*
.fuse_hidden*
.idea/
*.swp
*.swo
.#*
\#*#
"""

# Files that exist to hold secrets; without a slash at its end a line is about files alone, since
# packages have folders of such names (`kubeconfig/`, `credentials.json/` of a locale). What is
# common source and only may hold one stays in, and its frames are masked: `appsettings.*.json`,
# `auth.json`, `database.yml`, `settings.py`, `google-services.json`, `gradle.properties`,
# `nuget.config`, `secret.yaml` (a template in most charts), `.yarnrc.yml`, `*.asc` (signatures).
SECRET_RULES: Final = rb"""
# Environments, and under which names their templates are shared.
.env
.env.*
*.env
!.env.dist
!.env.example
!.env.sample
!.env.template
!example.env
!sample.env
!template.env
.envrc
.dev.vars
.Renviron

# Keys, certificates, and stores of them.
*.pem
*.key
*.p8
*.p12
*.pfx
*.pkcs12
*.ppk
*.jks
*.jceks
*.keystore
*.keytab
*.kdbx
*.crt
*.cer
*.der
*.ovpn
*.agekey
id_rsa
id_dsa
id_ecdsa
id_ecdsa_sk
id_ed25519
id_ed25519_sk
ssh_host_*_key
secring.gpg
wallet.dat
.ssh/
.gnupg/

# Clouds, clusters and what provisions them.
.aws/
**/.aws/credentials
.kube/
**/.kube/config
kubeconfig
kubeconfig.yaml
kubeconfig.yml
*.kubeconfig
**/.docker/config.json
.dockercfg
.dockerconfigjson
.boto
.s3cfg
rclone.conf
.databrickscfg
application_default_credentials.json
service-account.json
service-account-*.json
*-service-account.json
service_account.json
service_account_key.json
serviceAccount.json
serviceAccountKey.json
local.settings.json
*.publishsettings
accessKeys.csv
*.tfvars
*.tfvars.json
*.tfstate
*.tfstate.backup
terraform.tfstate.*
.terraformrc
credentials.tfrc.json
.vault-token
.vault_pass
.vault_pass.txt
.vault_password

# Credentials by that name; sources (`secrets.py`, `credentials.go`) are not meant.
credentials.json
credentials.yaml
credentials.yml
credentials.toml
credentials.ini
credentials.csv
client_secret.json
client_secret_*.json
client_secrets.json
secrets.json
secrets.yaml
secrets.yml
secrets.toml
secrets.ini
secrets.properties
appsettings.Local.json
appsettings.Secrets.json

# Tools and servers that keep a password or token in one place.
.netrc
_netrc
.authinfo
.npmrc
.pypirc
**/.cargo/credentials
.gem/
**/.composer/auth.json
.git-credentials
.pgpass
pgpass.conf
.my.cnf
.mylogin.cnf
.htpasswd
.msmtprc
.ftpconfig
.ftppass
sftp-config.json
sftp.json
wp-config.php
"""
